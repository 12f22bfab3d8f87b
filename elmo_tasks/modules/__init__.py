"""Modules of PyTorch that two or more tasks use, and the base classes of the models. They know no task."""

from elmo_tasks.modules.character_cnn import CharacterCnn
from elmo_tasks.modules.ensemble import EnsembleModel

__all__ = ["CharacterCnn", "EnsembleModel"]
