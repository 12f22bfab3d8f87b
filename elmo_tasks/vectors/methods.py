"""The ways to train static vectors, by name, with their settings."""

from collections.abc import Callable

from elmo_tasks.vectors.svd import ppmi_svd
from elmo_tasks.vectors.word2vec import skip_gram
from elmo_tasks.vectors.word_table import TokenizedText, WordTable

_TRAINERS: dict[str, Callable[..., WordTable]] = {"word2vec": skip_gram, "svd": ppmi_svd}
_COMMON = {"dim": 100, "window": 5, "min_count": 2, "seed": 13}

DEFAULTS: dict[str, dict[str, int | float]] = {
    "word2vec": {**_COMMON, "negative": 5, "subsample": 1e-3, "epochs": 20},
    "svd": {**_COMMON, "shift": 1.0, "smoothing": 0.75, "eigenvalues": 0.5},
}
"""For each method its settings: see `skip_gram` and `ppmi_svd`."""


def train_table(method: str, sentences: TokenizedText, **settings: int | float) -> WordTable:
    """
    The vectors of a text's words.

    # Parameters

    method : one of `DEFAULTS`.
    settings : those that differ from the defaults of the method.
    """
    return _TRAINERS[method](sentences, **{**DEFAULTS[method], **settings})
