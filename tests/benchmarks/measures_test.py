"""Measures of the benchmarks against references: KenLM, plain formulas, hand-made texts."""

import gzip
from collections import Counter
from random import Random

import torch

from benchmarks.__main__ import main
from benchmarks.coref import DocumentLstm
from benchmarks.english import NOVEL_BEGINNING, coreference, novels
from elmo_tasks.common.files import bundled
from elmo_tasks.coref.documents import CorefDocument
from tests.coref.tiny import Tiny

WORD, DIFFERENCE = "weight on the word itself", "length of the difference"
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
    arguments = [
        argument
        for name in ("train", "vocabulary", "test")
        for argument in (f"--{name}", str(tmp_path / name))
    ]
    main(["kneser-ney", *arguments, "--backward"])

    output = capsys.readouterr().out
    assert "/test | 288 | 1.74% |" in output
    assert "test: perplexity_forward | 5-gram | 33.13 |" in output
    assert "test: perplexity_backward | 5-gram | 33.82 |" in output


def test_a_novel_is_left_out_from_where_its_document_begins(tmp_path):
    """Also where the novel lacks the first word of its document."""
    documents = bundled("fixtures/coref/dev.conll")
    document = next(coreference(documents))
    assert len(document[0]) >= 9
    end = ["This", "is", "the", "end", "."]
    first = [*document, *[["So", "on", "."]] * (NOVEL_BEGINNING // 3), end]
    second = [document[0][1:], *document[1:], *[["And", "on", "."]] * (NOVEL_BEGINNING // 3), end]
    path = tmp_path / "novels.txt.gz"
    path.write_bytes(gzip.compress("".join(f"{' '.join(words)}\n" for words in first + second).encode()))
    left_out: Counter[str] = Counter()
    parts_left = list(novels(path, documents, left_out))
    assert [sentences[-1] for sentences in parts_left] == [end, end]
    text = [words for sentences in parts_left for words in sentences]
    assert not any(words in text for words in document[:-1] if len(words) > 3)
    assert left_out["novels begun"] == 1


def test_the_document_bilstm_reads_a_document_of_one_sentence_as_before():
    tiny = Tiny("coref_elmo")
    document = CorefDocument.of([["The", "old", "captain", "said", "that", "he", "was", "late"]])
    instance = tiny.instance(document)
    expected = tiny.scores(instance)
    tiny.model.__class__ = DocumentLstm
    torch.testing.assert_close(tiny.scores(instance), expected)
