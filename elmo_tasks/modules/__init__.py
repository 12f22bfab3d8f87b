"""What two or more tasks use. Nothing in this package knows a task."""

from elmo_tasks.modules.distinct_words import DistinctWords

__all__ = ["DistinctWords"]
