"""Semantic role labelling: interleaved highway LSTM (He et al. 2017; Peters et al. 2018, section 4)."""

from elmo_tasks.srl.metric import SrlEval
from elmo_tasks.srl.model import SrlModel
from elmo_tasks.srl.predictor import SrlPredictor
from elmo_tasks.srl.reader import SrlReader

__all__ = ["SrlEval", "SrlModel", "SrlPredictor", "SrlReader"]
