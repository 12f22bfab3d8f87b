"""The features of a linear classifier beside its vectors of ELMo: n-grams, and static words."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def features(settings: Mapping[str, Any], texts: Sequence[Sequence[str]]) -> dict[str, Any]:
    return ngrams(settings["ngrams"], texts) | static_words(settings["static_words"], texts)


def ngrams(kinds: Sequence[Mapping[str, Any]], texts: Sequence[Sequence[str]]) -> dict[str, Any]:
    """
    Returns the columns and values of the n-grams of a text, or of a pair of texts: those of the first, of the
    second, their differences and their products. A kind has a block of columns for each.
    """
    columns: list[int] = []
    values: list[float] = []
    start = 0
    for kind in kinds:
        of_texts = [tf_idf(kind, " ".join(words).lower()) for words in texts]
        blocks = of_texts
        if len(of_texts) == 2:
            first, second = of_texts
            differences = {term: abs(first.get(term, 0) - second.get(term, 0)) for term in first | second}
            products = {term: first[term] * second[term] for term in first.keys() & second.keys()}
            blocks = [first, second, differences, products]
        for block in blocks:
            columns += [start + term for term in block]
            values += block.values()
            start += len(kind["terms"])
    return {"ngrams": np.array(columns, np.int64), "ngram_values": np.array(values, np.float32)}


def tf_idf(kind: Mapping[str, Any], text: str) -> dict[int, float]:
    """Returns the weight of each known term of a text, as scikit-learn's `TfidfVectorizer` does."""
    find = words_and_pairs if kind["analyzer"] == "word" else characters
    counts = Counter(kind["terms"][term] for term in find(text) if term in kind["terms"])
    weights = {term: (1 + math.log(count)) * kind["idf"][term] for term, count in counts.items()}
    norm = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {term: weight / norm for term, weight in weights.items()}


def words_and_pairs(text: str) -> list[str]:
    words = text.split()
    return words + [" ".join(pair) for pair in pairwise(words)]


def characters(text: str) -> Iterator[str]:
    """Yields 2 to 5 characters of each word and the blanks around it; a shorter word once."""
    for word in text.split():
        padded = f" {word} "
        for size in range(2, 6):
            for start in range(max(1, len(padded) - size + 1)):
                yield padded[start : start + size]
            if len(padded) <= size:
                break


def static_words(rows: Mapping[str, int], texts: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Returns the rows of a text's words in the table, 0 for those that it lacks."""
    longest = max(map(len, texts))
    of_texts = [[rows.get(word.lower(), 0) for word in words] for words in texts]
    return {"static": np.array([row + [0] * (longest - len(row)) for row in of_texts], np.int64)}
