"""What two or more tasks use. Nothing in this package knows a task."""

from elmo_tasks.modules.character_cnn import CharacterCnn
from elmo_tasks.modules.ensemble import EnsembleModel

__all__ = ["CharacterCnn", "EnsembleModel"]
