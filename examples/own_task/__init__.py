"""A task of your own: parts of speech. CONTRIBUTING.md walks through it."""

from examples.own_task.model import PosModel
from examples.own_task.predictor import PosPredictor
from examples.own_task.reader import PosReader

__all__ = ["PosModel", "PosPredictor", "PosReader"]
