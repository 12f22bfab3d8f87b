"""What two or more tasks use. Nothing in this package knows a task."""

from elmo_tasks.modules.character_cnn import CharacterCnn

__all__ = ["CharacterCnn"]
