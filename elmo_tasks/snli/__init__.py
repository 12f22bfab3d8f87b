"""Natural language inference: ESIM (Chen et al. 2017; Peters et al. 2018, section 4)."""

from elmo_tasks.snli.model import SnliModel
from elmo_tasks.snli.predictor import SnliPredictor
from elmo_tasks.snli.reader import SnliReader

__all__ = ["SnliModel", "SnliPredictor", "SnliReader"]
