import gzip
import math
from collections import Counter, defaultdict
from random import Random

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.kneser_ney import KneserNey

NAMES = [f"w{i}" for i in range(500)]
WORDS = ["<S>", "</S>", "<UNK>", *NAMES]


def sentences(seed, number, names):
    """The first names are the most frequent; a word often follows the one of half its place."""
    random = Random(seed)
    result = []
    for _ in range(number):
        place, sentence = 1, []
        while random.random() < 0.85:
            place = 2 * place if random.random() < 0.6 else int(len(names) ** random.random())
            sentence.append(names[place % len(names)])
        if sentence:
            result.append(sentence)
    return result


TRAIN, TEST = sentences(0, 2000, NAMES[:-50]), sentences(1, 40, NAMES)
TINY = [["w0"], ["w1", "w0"]]
"""Without any 5-gram."""


class Slow:
    """Probabilities from the definition, one at a time; words are strings, n-grams tuples."""

    def __init__(self, texts, order, discounts=None):
        self.order = order
        raw = Counter(
            tuple(text[start : start + n])
            for text in texts
            for n in range(1, order + 1)
            for start in range(len(text) - n + 1)
        )
        before = defaultdict(set)
        for ngram in raw:
            before[ngram[1:]].add(ngram[0])
        begin = texts[0][0]
        self.following = defaultdict(dict)
        times = defaultdict(Counter)
        for ngram, count in raw.items():
            if ngram != (begin,):
                if len(ngram) < order and ngram[0] != begin:
                    count = len(before[ngram])
                self.following[ngram[:-1]][ngram[-1]] = count
                times[len(ngram)][count] += 1
        self.discounts = {n: discounts or self.equation_26(times[n]) for n in range(1, order + 1)}

    @staticmethod
    def equation_26(times):
        y = times[1] / (times[1] + 2 * times[2])
        return [
            0,
            1 - 2 * y * times[2] / times[1],
            2 - 3 * y * times[3] / times[2],
            3 - 4 * y * times[4] / times[3],
        ]

    def probability(self, history, word):
        lower = self.probability(history[1:], word) if history else 1 / (len(WORDS) - 1)
        counts = self.following.get(history)
        if counts is None:
            return lower
        discounts = {
            other: self.discounts[len(history) + 1][min(count, 3)] for other, count in counts.items()
        }
        own = counts.get(word, 0) - discounts.get(word, 0)
        return (own + sum(discounts.values()) * lower) / sum(counts.values())

    def log_probabilities(self, texts):
        return [
            math.log(self.probability(tuple(text[max(0, place - self.order + 1) : place]), text[place]))
            for text in texts
            for place in range(1, len(text))
        ]


def with_markers(texts, *, backward=False):
    texts = [["<S>", *text, "</S>"] for text in texts]
    return [text[::-1] for text in texts] if backward else texts


def flat(texts):
    places = {word: i for i, word in enumerate(WORDS)}
    return np.array([places[word] for text in texts for word in text])


def trained(texts, order):
    begin = WORDS.index(texts[0][0])
    return KneserNey(flat(texts), begin=begin, order=order, vocabulary_size=len(WORDS))


@pytest.mark.parametrize("order", [1, 3, 5])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("texts", "discounts"), [(TRAIN, None), (TINY, [0, 0.5, 1, 1.5])])
def test_probabilities_are_those_of_the_definition(texts, discounts, backward, order):
    train, test = with_markers(texts, backward=backward), with_markers(TEST, backward=backward)
    model, slow = trained(train, order), Slow(train, order, discounts)
    for n, part in enumerate(model.orders, start=1):
        np.testing.assert_allclose(part.discounts, slow.discounts[n])
    np.testing.assert_allclose(model.log_probabilities(flat(test)), slow.log_probabilities(test))


@pytest.mark.parametrize("order", [1, 3, 5])
def test_probabilities_after_any_history_sum_to_1(order):
    model = trained(with_markers(TRAIN), order)
    histories = {tuple(text[:end]) for text in with_markers(TEST) for end in range(1, len(text))}
    for history in histories:
        each = [[*history, word] for word in WORDS[1:]]
        found = model.log_probabilities(flat(each)).reshape(len(each), len(history))[:, -1]
        assert np.exp(found).sum() == pytest.approx(1)


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
    assert "test: 288 predictions, 1.74% of them <UNK>" in output
    assert "test: perplexity_forward | 5-gram | 33.13 |" in output
    assert "test: perplexity_backward | 5-gram | 33.82 |" in output
