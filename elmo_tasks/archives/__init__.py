"""Archives of models: opening them safely, slim archives, and the models that come trained."""

from elmo_tasks.archives.opening import ArchiveError, open_archive

__all__ = ["ArchiveError", "open_archive"]
