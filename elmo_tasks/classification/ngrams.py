"""
The n-grams of a text, its features beside its vectors: words, pairs of words, and groups of characters.

scikit-learn counts them, and weighs them by TF-IDF. Its import takes a second, so `linear` imports this
module when it makes a model.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from torch.nn import functional as F

from elmo_tasks.modules.fitted import SizedByState, from_bytes, to_bytes

KINDS: dict[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "token_pattern": r"\S+", "ngram_range": (1, 2)},
    "characters": {"analyzer": "char_wb", "ngram_range": (2, 5)},
}
"""scikit-learn's settings: words and pairs of words; 2 to 5 characters of a word and the blanks around it."""
SUBLINEAR = {"sublinear_tf": True}
"""A term that occurs n times in a text counts 1 + log n times."""


def joined(first: sparse.csr_array, second: sparse.csr_array | None = None) -> sparse.csr_array:
    """Returns the features of texts, or of pairs. *Shape:* `(texts, n)` to `(texts, n)` or `(texts, 4 n)`."""
    if second is None:
        return first
    return sparse.hstack([first, second, abs(first - second), first.multiply(second)], format="csr")


class NgramLayer(SizedByState):
    """
    A linear layer over the n-grams of texts. It has no bias, and gives zeros until `fill` is called. The
    terms, their IDF and their weights are in the state dict.
    """

    terms: torch.Tensor
    idf: torch.Tensor
    weight: torch.Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        # (bytes,): a list of terms for each kind, in JSON
        self.register_buffer("terms", torch.zeros(0, dtype=torch.uint8))
        # (terms,): of all kinds
        self.register_buffer("idf", torch.zeros(0, dtype=torch.float64))
        # (features, classes)
        self.register_buffer("weight", torch.zeros(0, classes))

    def fill(self, terms: Sequence[Sequence[str]], idf: np.ndarray, weight: np.ndarray) -> None:
        """Sets what a training has found. *Shape:* `(terms,)` and `(features, classes)`."""
        self.terms = to_bytes(list(map(list, terms))).to(self.terms.device)
        self.idf = torch.from_numpy(idf).to(self.idf)
        self.weight = torch.from_numpy(weight).to(self.weight)
        self.__dict__.pop("_vectorizers", None)

    @cached_property
    def _vectorizers(self) -> list[TfidfVectorizer]:
        vectorizers, idf = [], self.idf.cpu().numpy()
        for settings, terms in zip(KINDS.values(), from_bytes(self.terms), strict=True):
            vectorizers.append(TfidfVectorizer(**settings, **SUBLINEAR, vocabulary=terms))
            vectorizers[-1].idf_, idf = idf[: len(terms)], idf[len(terms) :]
        return vectorizers

    def forward(self, *texts: list[str]) -> torch.Tensor:
        """*Shape:* texts, or first and second texts, to `(texts, classes)`."""
        if not len(self.weight):
            return self.weight.new_zeros(len(texts[0]), self.weight.shape[1])
        parts = [joined(*map(vectorizer.transform, texts)) for vectorizer in self._vectorizers]
        # (texts, features)
        features = sparse.hstack(parts, format="csr")
        columns, starts, values = (
            torch.from_numpy(part).to(self.weight.device)
            for part in (features.indices, features.indptr[:-1], features.data)
        )
        return F.embedding_bag(
            columns, self.weight, starts.to(columns), per_sample_weights=values.to(self.weight), mode="sum"
        )

    def _load_from_state_dict(self, state_dict: dict[str, torch.Tensor], prefix: str, *args: object) -> None:
        self.__dict__.pop("_vectorizers", None)
        super()._load_from_state_dict(state_dict, prefix, *args)
