"""Classification of sentences and of pairs of sentences."""

from elmo_tasks.classification.model import ClassificationModel
from elmo_tasks.classification.predictor import ClassificationPredictor
from elmo_tasks.classification.reader import ClassificationReader

__all__ = ["ClassificationModel", "ClassificationPredictor", "ClassificationReader"]
