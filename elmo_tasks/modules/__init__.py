"""Modules of PyTorch that two or more tasks use, and the base classes of the models. They know no task."""

from elmo_tasks.modules.elmo_model import EnsembleModel
from elmo_tasks.modules.layers import CharacterCnn

__all__ = ["CharacterCnn", "EnsembleModel"]
