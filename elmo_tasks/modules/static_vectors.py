"""Static word vectors, which do not depend on the context, and their mean in a text."""

from collections.abc import Sequence
from functools import cached_property
from typing import Optional

import numpy as np
import torch
from allennlp.common import FromParams

from elmo_tasks.modules.fitted import SizedByState, from_bytes, to_bytes
from elmo_tasks.vectors.files import read_vectors

MOST_WORDS = 25_000
"""The most frequent words of a file, which are kept."""
_HALF = 100
"""The word of this rank has half of the weight of a rare word."""


class StaticVectors(SizedByState, FromParams):
    """
    The mean of the static vectors of a text's words, in lower case. Words have unit vectors, and frequent
    ones a smaller weight (Arora, Liang and Ma 2017), by their rank in place of their probability. Without a
    file there are none, until the state dict brings them. A number has a byte.

    # Parameters

    pretrained_file : vectors as `allennlp elmo vectors` writes them, the most frequent words first.
    """

    words: torch.Tensor
    vectors: torch.Tensor
    scales: torch.Tensor

    def __init__(self, pretrained_file: Optional[str] = None) -> None:
        super().__init__()
        table = None if pretrained_file is None else read_vectors(pretrained_file)
        words = table.words[:MOST_WORDS] if table else []
        vectors = table.vectors[: len(words)] if table else np.zeros((0, 0), np.float32)
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        # (words, 1)
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-9)
        weights = 1 / (1 + _HALF / np.arange(1, len(words) + 1))
        # (bytes,): a list of the words, in JSON
        self.register_buffer("words", to_bytes(words))
        # (words, dim)
        self.register_buffer("vectors", torch.from_numpy(np.rint(127 * vectors / largest)).to(torch.int8))
        # (words,)
        self.register_buffer("scales", torch.from_numpy(weights * largest[:, 0] / 127).float())

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(from_bytes(self.words))}

    def forward(self, texts: Sequence[Sequence[str]]) -> torch.Tensor:
        """*Shape:* texts of words to `(texts, dim)`."""
        means = self.scales.new_zeros(len(texts), self.dim)
        for mean, text in zip(means, texts, strict=True):
            rows = [row for word in text if (row := self._rows.get(word.lower())) is not None]
            if rows:
                mean.copy_(self.scales[rows] @ self.vectors[rows].to(self.scales) / len(text))
        return means

    def _load_from_state_dict(self, state_dict: dict[str, torch.Tensor], prefix: str, *args: object) -> None:
        """PyTorch calls it."""
        self.__dict__.pop("_rows", None)
        super()._load_from_state_dict(state_dict, prefix, *args)
