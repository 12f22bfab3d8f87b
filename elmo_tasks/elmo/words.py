"""
Words as hashes, for a biLM whose token layer is a table of word vectors.

A word's id says which word it is, and nothing about a vocabulary: which words a biLM knows is its own affair
(`WordEncoder`). So indexing needs no file, and an archive stands alone.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from allennlp.common.file_utils import cached_path
from allennlp.data import Token, TokenIndexer, Vocabulary

from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.elmo.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_tasks.elmo.weights import Source
from elmo_tasks.strict_params import StrictParams

UNKNOWN = "<UNK>"
MARKERS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
"""What each vocabulary has beside the words of a text."""

_POSITIVE = (1 << 63) - 1


@lru_cache(maxsize=1 << 17)
def _hash(word: str) -> int:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & _POSITIVE or 1


def word_ids(words: Iterable[str]) -> np.ndarray:
    """
    A hash of each word: any string has one, and 0 is left for "no word here".

    *Shape:* `(len(words),)`, `int64`, positive.
    """
    return np.fromiter(map(_hash, words), dtype=np.int64)


def padded_word_ids(sentences: Sequence[Sequence[str]]) -> torch.Tensor:
    """*Shape:* `(sentences, longest)`, `int64`, 0 behind the end of a sentence: what `BiLm` reads."""
    ids = np.zeros((len(sentences), max(map(len, sentences))), dtype=np.int64)
    for row, words in zip(ids, sentences, strict=True):
        row[: len(words)] = word_ids(words)
    return torch.from_numpy(ids)


def read_words(path: Source) -> list[str]:
    """
    A vocabulary of bilm-tf: one word a line, in the order of the rows of the biLM's table.

    # Parameters

    path : path, URL or `hf://` name; gzip or not.

    # Raises
    `InputError`, with the file and the line: an empty line, a word that was there before, no `<S>`, `</S>` or
    `<UNK>`, or what is not UTF-8.
    """
    places: dict[str, int] = {}
    for line, word in read_lines(cached_path(path)):
        if not word.strip():
            raise InputError.at(path, line, found="an empty line", expected="a word")
        if word in places:
            found = f"{word!r}, which stands in line {places[word]} too"
            raise InputError.at(path, line, found=found, expected="each word once")
        places[word] = line
    for marker in MARKERS:
        if marker not in places:
            raise InputError.at(path, found=f"no {marker}", expected=f"the lines {', '.join(MARKERS)}")
    return list(places)


@TokenIndexer.register("elmo_word_ids")
class ElmoWordIndexer(StrictParams, TokenIndexer):
    """
    Turns the words of a `TextField` into the word ids that an `Elmo` with a table of words reads.

    It needs no vocabulary. Batches hold one tensor, `word_ids`, of shape `(batch, tokens)`, `int64`, 0 behind
    the end of a sentence.
    """

    def __init__(self) -> None:
        super().__init__()

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        pass

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> dict[str, Any]:
        return {"word_ids": word_ids(token.text or "" for token in tokens)}

    def get_empty_token_list(self) -> dict[str, Any]:
        return {"word_ids": word_ids([])}

    def as_padded_tensor_dict(
        self, tokens: dict[str, Any], padding_lengths: dict[str, int]
    ) -> dict[str, torch.Tensor]:
        words = tokens["word_ids"]
        padded = np.zeros(padding_lengths["word_ids"], dtype=np.int64)
        kept = words[: len(padded)]
        padded[: len(kept)] = kept
        return {"word_ids": torch.from_numpy(padded)}
