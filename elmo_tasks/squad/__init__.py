"""Reading comprehension: SQuAD, by the model of Clark and Gardner 2017 (Peters et al. 2018, section 4)."""

from elmo_tasks.squad.metric import SquadMetric
from elmo_tasks.squad.model import SquadModel
from elmo_tasks.squad.predictor import SquadPredictor
from elmo_tasks.squad.reader import SquadReader

__all__ = ["SquadMetric", "SquadModel", "SquadPredictor", "SquadReader"]
