"""A placeholder: see `_elmo_tasks_placeholder`."""

from _elmo_tasks_placeholder import attributes_of, unusable

__getattr__ = attributes_of(__name__)
enable_wrap = unusable(__name__, "enable_wrap")
wrap = unusable(__name__, "wrap")
