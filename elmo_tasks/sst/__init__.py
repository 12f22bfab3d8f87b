"""Sentiment of sentences, SST-5: biattentive classification network (Peters et al. 2018, section 4)."""

from elmo_tasks.sst.model import SstModel
from elmo_tasks.sst.predictor import SstPredictor
from elmo_tasks.sst.reader import SstReader

__all__ = ["SstModel", "SstPredictor", "SstReader"]
