"""The module `allennlp.commands.elmo` of AllenNLP 0.9, for code that imports it."""

import warnings
from typing import Any

import numpy as np

from elmo_tasks.drop_in.elmo import ElmoBiLm, allennlps_states
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.elmo.files import DEFAULT_OPTIONS as DEFAULT_OPTIONS_FILE
from elmo_tasks.elmo.files import DEFAULT_WEIGHTS as DEFAULT_WEIGHT_FILE
from elmo_tasks.elmo.files import Source
from elmo_tasks.embedding import embedder

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "ElmoEmbedder",
    "empty_embedding",
]

DEFAULT_BATCH_SIZE = 64
_ORIGINAL = "hf://lysandre/elmo-2x4096_512_2048cnn_2xhighway"


def empty_embedding() -> np.ndarray:
    """The vectors of a sentence without tokens, of the published sizes. *Shape:* `(3, 0, 1024)`."""
    return np.zeros((3, 0, 1024), dtype=np.float32)


class ElmoEmbedder(embedder.ElmoEmbedder):
    """Our embedder, with the attribute that other packages use. No state is carried between calls."""

    _elmo_bilm: ElmoBiLm | None = None

    def __init__(
        self,
        options_file: Source | None = None,
        weight_file: Source | None = None,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(options_file, weight_file, *args, **options)
        if weight_file in (None, DEFAULT_WEIGHT_FILE):
            warnings.warn(
                f"without files, ElmoEmbedder has the biLM of elmo_tasks, {self.dim} numbers a token, not "
                f"that of AllenNLP, 1,024; for that one, give '{_ORIGINAL}/options.json' and "
                f"'{_ORIGINAL}/weights.hdf5'",
                stacklevel=2,
            )

    @property
    def elmo_bilm(self) -> ElmoBiLm:
        """AllenNLP's biLM. From the first use on, the embedder uses its weights."""
        if self._elmo_bilm is None:
            self._elmo_bilm = ElmoBiLm.of(self.bilm)
            # As after a call: flair moves the state when it loads a model.
            self._elmo_bilm._elmo_lstm._states = allennlps_states(self._bilm.initial_state(1))
        return self._elmo_bilm

    @property
    def bilm(self) -> FrozenBiLm:
        return self._bilm if self._elmo_bilm is None else self._elmo_bilm.frozen()

    @bilm.setter
    def bilm(self, bilm: FrozenBiLm) -> None:
        self._bilm = bilm
