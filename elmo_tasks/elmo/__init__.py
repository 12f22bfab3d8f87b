"""
ELMo: the model in plain PyTorch (`model`), the engine that runs it fast (`inference`), and above both `Elmo`.
What AllenNLP sees of it is in `token_embedder`. This package knows no task.
"""

from elmo_tasks.elmo.embedder import Elmo, ElmoRepresentations
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLm, BiLmOptions, CharacterOptions, LstmState, ScalarMix, WordOptions

__all__ = [
    "BiLm",
    "BiLmOptions",
    "CharacterOptions",
    "Elmo",
    "ElmoRepresentations",
    "FrozenBiLm",
    "LstmState",
    "ScalarMix",
    "TrainedBiLm",
    "WordOptions",
]
