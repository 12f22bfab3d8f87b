"""ELMo in plain PyTorch: the whole model, and the reference for the engine that runs it fast."""

from elmo_tasks.elmo.model.bilm import BiLm
from elmo_tasks.elmo.model.lstm import LstmState
from elmo_tasks.elmo.model.options import BiLmOptions, CharacterOptions, WordOptions
from elmo_tasks.elmo.model.scalar_mix import ScalarMix

__all__ = ["BiLm", "BiLmOptions", "CharacterOptions", "LstmState", "ScalarMix", "WordOptions"]
