"""
ELMo: the model in plain PyTorch (`model`), the engine that runs it fast (`inference`), and above both `Elmo`
and what AllenNLP sees of it, which are imported when they are first used. This package knows no task.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLm, BiLmOptions, CharacterOptions, LstmState, ScalarMix, WordOptions

if TYPE_CHECKING:
    from elmo_tasks.elmo.embedder import Elmo, ElmoRepresentations
    from elmo_tasks.elmo.token_embedder import (
        ElmoCharacterIndexer,
        ElmoMixRegularizer,
        ElmoTokenEmbedder,
        ElmoUnicodeIndexer,
        ElmoWordIndexer,
    )

__all__ = [
    "BiLm",
    "BiLmOptions",
    "CharacterOptions",
    "Elmo",
    "ElmoCharacterIndexer",
    "ElmoMixRegularizer",
    "ElmoRepresentations",
    "ElmoTokenEmbedder",
    "ElmoUnicodeIndexer",
    "ElmoWordIndexer",
    "FrozenBiLm",
    "LstmState",
    "ScalarMix",
    "TrainedBiLm",
    "WordOptions",
]

_LAZY = {
    "Elmo": "embedder",
    "ElmoCharacterIndexer": "token_embedder",
    "ElmoMixRegularizer": "token_embedder",
    "ElmoRepresentations": "embedder",
    "ElmoTokenEmbedder": "token_embedder",
    "ElmoUnicodeIndexer": "token_embedder",
    "ElmoWordIndexer": "token_embedder",
}
"""The modules of the names that are imported on first use; all except `embedder` need AllenNLP."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"elmo_tasks.elmo.{_LAZY[name]}"), name)
