"""A task of your own: parts of speech. CONTRIBUTING.md walks through it."""

from .model import PosModel
from .predictor import PosPredictor
from .reader import PosReader

__all__ = ["PosModel", "PosPredictor", "PosReader"]
