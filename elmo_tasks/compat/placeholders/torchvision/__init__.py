"""A placeholder: see `_elmo_tasks_placeholder`."""

from _elmo_tasks_placeholder import attributes_of

__getattr__ = attributes_of(__name__)
