"""
The perplexity of an interpolated modified Kneser-Ney model: the yardstick of our language models.

A text has one tokenised sentence a line, plain or gzip; empty lines are skipped. The vocabulary has
one word a line, with `<S>`, `</S>` and `<UNK>`; a word outside it is `<UNK>`, predicted like any other.
`w1 .. wn` is read after `<S>` and predicted as `w1 .. wn </S>`: n + 1 predictions. `--backward` adds the
model that reads `wn .. w1` after `</S>` and predicts `wn .. w1 <S>`.

Source: Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", section 3.
Where it leaves a choice, ours is KenLM's (Heafield et al. 2013): the lowest order is interpolated with the
uniform distribution, and an n-gram at the beginning of a sentence keeps its full count in the lower orders.

Why our own: PyPI's kenlm only queries models (its estimator needs Boost and a build by hand), and nltk.lm
has one discount for all counts and is too slow for millions of words.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bilms import peak_memory
from benchmarks.results import Results, add_results_argument, show
from elmo_tasks.common.table import Table
from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.elmo.files import read_words
from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE, UNKNOWN

FALLBACK_DISCOUNTS = np.array([0.0, 0.5, 1.0, 1.5])
"""KenLM's, where counts of counts give none: a tiny text, or a vocabulary without rare words."""


@dataclass(frozen=True)
class Order:
    """
    The n-grams of one length.

    The last entry of `shares` and `weights`, index -1, is for n-grams and histories that were never seen.
    """

    ngrams: np.ndarray
    """`(n-grams,)`, sorted: the index of the first n - 1 words in the order below, and the last word."""
    shares: np.ndarray
    """`(n-grams + 1,)`: of the last word's probability, what comes from the n-gram's own count."""
    weights: np.ndarray
    """`(histories + 1,)`: the weight of the order below after each history."""
    discounts: np.ndarray
    """`(4,)`: what an n-gram's count loses if it is 0, 1, 2, or 3 and more."""


class KneserNey:
    """
    An interpolated modified Kneser-Ney model.

    A text is sentences end to end, each `begin`, its words and an end marker, as ids below
    `vocabulary_size`. `begin` is never predicted; a history reaches back to it at most.

    *Shape:* text `(tokens,)`, int64
    """

    def __init__(self, text: np.ndarray, *, begin: int, order: int, vocabulary_size: int) -> None:
        self._begin, self._vocabulary_size = begin, vocabulary_size
        self.orders: list[Order] = []
        """The orders: unigrams, bigrams, ..."""

        ngrams, histories = np.arange(vocabulary_size), 1
        indices = text
        """At each token, the index in `ngrams` of the n-gram that it ends, or -1."""
        while len(self.orders) < order - 1:
            longer, first, longer_indices = np.unique(
                self._longer(indices, text), return_index=True, return_inverse=True
            )
            longer, first, longer_indices = longer[1:], first[1:], longer_indices - 1  # without the -1
            # An n-gram counts once for each word seen before it, and each time after `begin`.
            at_begin = np.flatnonzero((indices >= 0) & (longer_indices < 0))
            counted = np.concatenate([first, at_begin])
            self._add_order(ngrams, indices[counted], histories)
            ngrams, histories, indices = longer, len(ngrams), longer_indices
        self._add_order(ngrams, indices[indices >= 0], histories)

    def log_probabilities(self, text: np.ndarray) -> np.ndarray:
        """
        The natural logarithm of the probability of each token except `begin`.

        *Shape:* `(predictions,)`, float64
        """
        history, indices = np.zeros_like(text), text
        probabilities = np.full(len(text), 1 / (self._vocabulary_size - 1))
        for n, order in enumerate(self.orders, start=1):
            if n > 1:
                history = np.roll(indices, 1)
                indices = _find(self._longer(indices, text), order.ngrams)
            probabilities = order.shares[indices] + order.weights[history] * probabilities
        return np.log(probabilities[text != self._begin])

    def perplexity(self, text: np.ndarray) -> float:
        return float(np.exp(-self.log_probabilities(text).mean()))

    def _longer(self, indices: np.ndarray, text: np.ndarray) -> np.ndarray:
        """From the n-grams that end at each token to those one word longer; -1 across `begin`."""
        history = np.roll(indices, 1)
        return np.where((history >= 0) & (text != self._begin), history * self._vocabulary_size + text, -1)

    def _add_order(self, ngrams: np.ndarray, counted: np.ndarray, histories: int) -> None:
        """
        *Shape:* ngrams `(n-grams,)`; counted `(any,)`: the index of an n-gram each time that it counts.
        """
        counts = np.bincount(counted, minlength=len(ngrams))
        if not self.orders:
            counts[self._begin] = 0
        discounts = _discounts(counts)
        lost = discounts[np.minimum(counts, 3)]
        history = ngrams // self._vocabulary_size
        totals = np.bincount(history, counts, minlength=histories)
        weights = np.ones(histories + 1)
        np.divide(np.bincount(history, lost, minlength=histories), totals, out=weights[:-1], where=totals > 0)
        shares = np.append((counts - lost) / totals[history], 0.0)
        self.orders.append(Order(ngrams, shares, weights, discounts))


def _discounts(counts: np.ndarray) -> np.ndarray:
    """Chen and Goodman's equation 26, from how many n-grams have the counts 1 to 4."""
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=5)[1:5].astype(float)
    sizes = np.arange(4)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = n1 / (n1 + 2 * n2)
        found = sizes - (sizes + 1) * share * np.array([0, n2 / n1, n3 / n2, n4 / n3])
    return found if np.all((found >= 0) & (found <= sizes)) else FALLBACK_DISCOUNTS


def _find(wanted: np.ndarray, ngrams: np.ndarray) -> np.ndarray:
    """The index of each in the sorted `ngrams`, or -1."""
    indices = np.searchsorted(ngrams, wanted)
    return np.where(np.append(ngrams, -2)[indices] == wanted, indices, -1)


def read_text(files: list[Path], words: list[str]) -> np.ndarray:
    """
    The indices in `words` of `<S>`, the words of a sentence, `</S>`, `<S>`, ...

    *Shape:* `(tokens,)`, int64

    # Raises
    `InputError`: no sentence, or what cannot be read.
    """
    ids = {word: i for i, word in enumerate(words)}
    begin, end, unknown = (ids.pop(word) for word in (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN))

    def tokens() -> Iterator[int]:
        for file in files:
            for _, line in read_lines(file):
                if sentence := line.split():
                    yield begin
                    for word in sentence:
                        yield ids.get(word, unknown)
                    yield end

    text = np.fromiter(tokens(), dtype=np.int64)
    if not len(text):
        raise InputError("has no sentences, one a line", where=list(map(str, files)))
    return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--train", nargs="+", required=True, metavar="TEXT", help="files, folders or patterns"
    )
    parser.add_argument("--test", type=Path, nargs="+", required=True, metavar="TEXT")
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--order", type=int, choices=range(1, 10), default=5)
    parser.add_argument("--backward", action="store_true")
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    words = read_words(arguments.vocabulary)
    begin, end = words.index(BEGIN_SENTENCE), words.index(END_SENTENCE)
    train = read_text([file for path in arguments.train for file in input_files(path)], words)
    tests = {str(file): read_text([file], words) for file in arguments.test}
    results = Results("kneser-ney", arguments.csv)
    sizes = Table(("text", "predictions", f"of them {UNKNOWN}"))
    for name, text in {"train": train, **tests}.items():
        predictions, unknown = (text != begin).sum(), (text == words.index(UNKNOWN)).sum()
        sizes.add(name, f"{predictions:,}", f"{unknown / predictions:.2%}")
    orders = Table(("direction", "n", "n-grams", "discounts"))
    for backward in range(1 + arguments.backward):
        started = time.perf_counter()
        step, direction = (-1, "backward") if backward else (1, "forward")
        model = KneserNey(
            train[::step], begin=end if backward else begin, order=arguments.order, vocabulary_size=len(words)
        )
        for name, text in tests.items():
            metric = f"{name}: perplexity_{direction}"
            perplexity = model.perplexity(text[::step])
            results.add(f"{arguments.order}-gram", 0, metric, perplexity, time.perf_counter() - started)
        for n, order in enumerate(model.orders, start=1):
            discounts = " ".join(f"{discount:.3f}" for discount in order.discounts[1:])
            orders.add(direction, n, f"{len(order.ngrams):,}", discounts)
    show(sizes, orders, results.means())
    print(f"vocabulary: {len(words):,} words; peak memory: {peak_memory() / 2**30:.1f} GiB")
