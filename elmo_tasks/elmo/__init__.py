"""
What ELMo is: the model in plain PyTorch (`model`), what runs it fast (`inference`), and here, above both,
`Elmo` and what AllenNLP sees of it, imported when it is asked for. Nothing in this package knows a task.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLm, BiLmOptions, CharacterOptions, LstmState, ScalarMix, WordOptions

if TYPE_CHECKING:
    from elmo_tasks.elmo.character_indexer import ElmoCharacterIndexer
    from elmo_tasks.elmo.embedder import Elmo, ElmoRepresentations
    from elmo_tasks.elmo.token_embedder import ElmoMixRegularizer, ElmoTokenEmbedder
    from elmo_tasks.elmo.unicode_indexer import ElmoUnicodeIndexer
    from elmo_tasks.elmo.word_indexer import ElmoWordIndexer

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
    "ElmoCharacterIndexer": "character_indexer",
    "ElmoMixRegularizer": "token_embedder",
    "ElmoRepresentations": "embedder",
    "ElmoTokenEmbedder": "token_embedder",
    "ElmoUnicodeIndexer": "unicode_indexer",
    "ElmoWordIndexer": "word_indexer",
}
"""The modules of the names that are imported when they are asked for; all but `embedder` need AllenNLP."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"elmo_tasks.elmo.{_LAZY[name]}"), name)
