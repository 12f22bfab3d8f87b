"""
What ELMo is: the model in plain PyTorch (`model`), what runs it fast (`inference`), and here, above both,
what AllenNLP sees of it. Nothing in this package knows a task.
"""

from elmo_tasks.elmo.character_indexer import ElmoCharacterIndexer
from elmo_tasks.elmo.embedder import Elmo, ElmoRepresentations
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLm, BiLmOptions, CharacterOptions, LstmState, ScalarMix, WordOptions
from elmo_tasks.elmo.token_embedder import ElmoMixRegularizer, ElmoTokenEmbedder
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
    "ElmoWordIndexer",
    "FrozenBiLm",
    "LstmState",
    "ScalarMix",
    "TrainedBiLm",
    "WordOptions",
]
