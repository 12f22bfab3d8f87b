"""Pre-training of the biLM."""

from elmo_tasks.language_model.model import BiLmModel
from elmo_tasks.language_model.reader import BiLmReader

__all__ = ["BiLmModel", "BiLmReader"]
