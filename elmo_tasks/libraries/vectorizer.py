"""`ElmoVectorizer`: sentences to vectors, for scikit-learn."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal
from unicodedata import category

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from elmo_tasks.common.machine import Device
from elmo_tasks.common.values import FileName, PositiveInt, check_block, constructor_parameters
from elmo_tasks.elmo.files import Precision
from elmo_tasks.elmo.model.encoders import checked_words
from elmo_tasks.embedding.embedder import AVERAGE, BiLmFiles, ElmoEmbedder, check_layer, chosen_layer

Tokenizer = Callable[[str], Sequence[str]]
_MARKS = "".join(sign for sign in map(chr, range(0x300, 0x20000)) if category(sign)[0] == "M")
"""Vowel signs, accents and other marks, which `\\w` lacks: they belong to the word before them."""
_TOKEN_PATTERN = re.compile(rf"\w[\w{_MARKS}]*(?:['\u2019-]\w[\w{_MARKS}]*)*|[^\w\s]")
_POOLING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": lambda vectors: vectors.mean(axis=0),
    "max": lambda vectors: vectors.max(axis=0),
    "first": lambda vectors: vectors[0],
    "last": lambda vectors: vectors[-1],
}


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """
    A transformer of sentences, strings or lists of tokens, into one vector each.

    There is nothing to fit. Pickles hold no weights: another process reads the files again. Within a process
    all vectorizers share the weights that were read last. Several threads may call `transform` concurrently.

    # Parameters

    options_file, weight_file, vocabulary_file, precision, cuda_device : see `ElmoEmbedder`.
    layer : `average`, or the index of a layer, 0 for the token layer, negative from the top.
    pooling : how the tokens' vectors are joined: `mean`, `max` (of each number), `first` or `last`. A
        sentence without tokens has zeros. `sentence`: the vectors and the scores of the trained model
        `elmo:sentence`, which needs AllenNLP and splits strings by its own tokenizer; the files, `layer`,
        `precision` and `batch_size` are not for it.
    batch_size : the most sentences to compute together.
    tokenizer : splits strings; by default into words, which may have apostrophes and hyphens, and punctuation
        marks. `str.split` is for tokenised text.
    """

    def __init__(
        self,
        *,
        options_file: FileName | None = None,
        weight_file: FileName | None = None,
        vocabulary_file: FileName | None = None,
        precision: Precision = "float32",
        cuda_device: Device = -1,
        layer: int | str = AVERAGE,
        pooling: Literal["mean", "max", "first", "last", "sentence"] = "mean",
        batch_size: PositiveInt = 64,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.options_file = options_file
        self.weight_file = weight_file
        self.vocabulary_file = vocabulary_file
        self.precision = precision
        self.cuda_device = cuda_device
        self.layer = layer
        self.pooling = pooling
        self.batch_size = batch_size
        self.tokenizer = tokenizer

    def fit(self, X: Iterable[str | Sequence[str]], y: Any = None) -> "ElmoVectorizer":  # noqa: N803
        """Checks the parameters and reads the weights; for errors see `transform`."""
        self._n_features_out  # noqa: B018
        _check_iterable(X)
        return self

    def transform(self, X: Iterable[str | Sequence[str]]) -> np.ndarray:  # noqa: N803
        """
        Returns the vectors of sentences. *Shape:* `(sentences, dim)`, float32.

        `ValueError`: a parameter has an impossible value; a string in place of sentences, or of a tokenizer's
        tokens; a sentence that is neither a string nor a list of strings. `ElmoError`: see `ElmoEmbedder`.
        """
        dim = self._n_features_out
        _check_iterable(X)
        # pyarrow's arrays yield objects of their own.
        plain = X.to_pylist() if hasattr(X, "to_pylist") else X
        if self.pooling == "sentence":
            is_whole = self.tokenizer is None
            examples = [
                {"sentence": each}
                if is_whole and isinstance(each, str)
                else {"tokens": self._tokens(i, each)}
                for i, each in enumerate(plain)
            ]
            results = _sentence_model(self.cuda_device).stream(examples)
            rows = [np.concatenate([result.vector, result.scores]) for result in results]
            return np.array(rows, dtype=np.float32).reshape(-1, dim)
        embedder = self._embedder()
        sentences = [self._tokens(index, sentence) for index, sentence in enumerate(plain)]
        pool = _POOLING[self.pooling]
        pooled = np.zeros((len(sentences), dim), dtype=np.float32)
        for row, layers in zip(pooled, embedder.embed_sentences(sentences, self.batch_size), strict=True):
            if layers.shape[1]:
                row[:] = pool(chosen_layer(layers, self.layer))
        return pooled

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    @property
    def _n_features_out(self) -> int:
        """The number of features, for the names `elmovectorizer0` and so on; checks the parameters."""
        parameters = constructor_parameters(type(self).__init__)
        check_block(self.get_params(deep=False), parameters, owner=type(self).__name__)
        if self.pooling == "sentence":
            return sum(part.size for part in _sentence_model(self.cuda_device)("")[1:])
        return self._embedder().dim

    def _embedder(self) -> ElmoEmbedder:
        embedder = BiLmFiles(
            self.options_file, self.weight_file, self.vocabulary_file, self.precision, self.cuda_device
        ).embedder()
        check_layer(self.layer, embedder.num_layers)
        return embedder

    def _tokens(self, index: int, sentence: str | Sequence[str]) -> list[str]:
        if isinstance(sentence, str):
            if self.tokenizer is None:
                return _TOKEN_PATTERN.findall(sentence)
            sentence = self.tokenizer(sentence)
        return checked_words(index, sentence)


@lru_cache(maxsize=1)
def _sentence_model(device: Device) -> Any:
    from elmo_tasks.pipeline.trained import load  # needs AllenNLP

    return load("sentence", device=device)


def _check_iterable(sentences: Any) -> None:
    # Iterating a dict or a table would yield its keys.
    is_table = isinstance(sentences, Mapping) or getattr(sentences, "ndim", 1) != 1
    if is_table or isinstance(sentences, str) or not isinstance(sentences, Iterable):
        raise ValueError(
            "sentences must be a list of strings or of lists of tokens, or a column such as table['text'], "
            f"not {type(sentences).__name__}"
        )
