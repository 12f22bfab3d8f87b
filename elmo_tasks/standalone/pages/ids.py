"""Words to the ids that `model.onnx` reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

BEGIN_WORD, END_WORD, AFTER_WORD, WORD_SIZE = 259, 260, 261, 50
BOUNDARIES = {"<S>": 257, "</S>": 258}


def padded_ids(texts: Sequence[Sequence[str]], indexers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """*Shape:* `(texts, longest)` for words, or `(texts, longest, characters)`, 0 after the end."""
    arrays = {}
    for name, indexer in indexers.items():
        rows = [word_ids(words, indexer) for words in texts]
        shape = [max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True)]
        arrays[name] = padded = np.zeros((len(rows), *shape), np.int64)
        for row, ids in zip(padded, rows, strict=True):
            row[tuple(map(slice, ids.shape))] = ids
    return arrays


def word_ids(words: Sequence[str], indexer: Mapping[str, Any]) -> Any:
    if indexer["kind"] == "bytes":
        return np.array(list(map(byte_ids, words)), np.int64).reshape(-1, WORD_SIZE)
    entries, unknown = indexer["entries"], indexer["unknown"]
    read = [word.lower() for word in words] if indexer["lowercase"] else words
    if indexer["kind"] == "words":
        return np.array([entries.get(word, unknown) for word in read], np.int64)
    longest = max(indexer["shortest"], *map(len, read), 1)
    rows = [[entries.get(letter, unknown) for letter in word] for word in read]
    return np.array([row + [0] * (longest - len(row)) for row in rows], np.int64)


def byte_ids(word: str) -> list[int]:
    """Returns the ids of ELMo: the bytes of a word between two marks, counted from 1, in 50 places."""
    inner = [byte + 1 for byte in word.encode("utf-8", "ignore")[: WORD_SIZE - 2]]
    ids = [BEGIN_WORD, *([BOUNDARIES[word]] if word in BOUNDARIES else inner), END_WORD]
    return ids + [AFTER_WORD] * (WORD_SIZE - len(ids))
