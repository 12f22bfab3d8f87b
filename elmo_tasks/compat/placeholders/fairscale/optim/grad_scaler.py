"""A placeholder: see `_elmo_tasks_placeholder`."""

from _elmo_tasks_placeholder import attributes_of, unusable

__getattr__ = attributes_of(__name__)
GradScaler = unusable(__name__, "GradScaler")
