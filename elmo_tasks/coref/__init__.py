"""Coreference resolution, end to end (Lee et al. 2017; Peters et al. 2018, section 4)."""

from elmo_tasks.coref.metric import CorefScores
from elmo_tasks.coref.model import CorefModel
from elmo_tasks.coref.predictor import CorefPredictor
from elmo_tasks.coref.reader import CorefReader

__all__ = ["CorefModel", "CorefPredictor", "CorefReader", "CorefScores"]
