"""Named entity recognition: biLSTM-CRF (Lample et al. 2016; Peters et al. 2018, section 4)."""

from elmo_tasks.ner.metric import ConllEval
from elmo_tasks.ner.model import NerModel
from elmo_tasks.ner.predictor import NerPredictor
from elmo_tasks.ner.reader import NerReader

__all__ = ["ConllEval", "NerModel", "NerPredictor", "NerReader"]
