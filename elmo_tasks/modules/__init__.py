"""Modules of PyTorch and metrics that two or more tasks use, and the bases of the models."""

from elmo_tasks.modules.elmo_model import EnsembleModel
from elmo_tasks.modules.layers import CharacterCnn

__all__ = ["CharacterCnn", "EnsembleModel"]
