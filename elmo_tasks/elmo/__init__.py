"""What ELMo is. Nothing in this package knows a task."""

from elmo_tasks.elmo.bilm import BiLm
from elmo_tasks.elmo.characters import ElmoCharacterIndexer
from elmo_tasks.elmo.embedder import Elmo, ElmoRepresentations
from elmo_tasks.elmo.scalar_mix import ScalarMix
from elmo_tasks.elmo.weights import BiLmOptions, CharacterOptions, WordOptions
from elmo_tasks.elmo.words import ElmoWordIndexer

__all__ = [
    "BiLm",
    "BiLmOptions",
    "CharacterOptions",
    "Elmo",
    "ElmoCharacterIndexer",
    "ElmoRepresentations",
    "ElmoWordIndexer",
    "ScalarMix",
    "WordOptions",
]
