"""Measures of the benchmarks against references: KenLM, plain formulas, hand-made texts."""

import gzip
from random import Random

from benchmarks.__main__ import main

NAMES = [f"w{i}" for i in range(500)]
WORDS = ["<S>", "</S>", "<UNK>", *NAMES]


def sentences(seed, number, names):
    """The first names are the most frequent; a word often follows the word of half its rank."""
    random = Random(seed)
    result = []
    for _ in range(number):
        rank, sentence = 1, []
        while random.random() < 0.85:
            rank = 2 * rank if random.random() < 0.6 else int(len(names) ** random.random())
            sentence.append(names[rank % len(names)])
        if sentence:
            result.append(sentence)
    return result


TRAIN, TEST = sentences(0, 2000, NAMES[:-50]), sentences(1, 40, NAMES)


def test_perplexity_of_files_is_that_of_kenlm(tmp_path, capsys):
    """KenLM 0.3.0, `lmplz -o 5` and `query` on the same text; backward, on reversed lines."""
    seen = {word for text in TRAIN for word in text}
    (tmp_path / "vocabulary").write_text("\n".join(WORDS[:3] + sorted(seen)), encoding="utf-8")
    (tmp_path / "train").write_text("\n\n".join(map(" ".join, TRAIN)), encoding="utf-8")
    # A marker within a text is an unknown word.
    assert "w456" in {word for text in TEST for word in text} - seen
    test = "\n\n".join(map(" ".join, TEST)).replace("w456", "<S>")
    (tmp_path / "test").write_bytes(gzip.compress(test.encode()))
    arguments = [f"--{name}={tmp_path / name}" for name in ("train", "vocabulary", "test")]
    main(["kneser-ney", *arguments, "--backward"])

    output = capsys.readouterr().out
    assert "/test | 288 | 1.74% |" in output
    assert "test: perplexity_forward | 5-gram | 33.13 |" in output
    assert "test: perplexity_backward | 5-gram | 33.82 |" in output
