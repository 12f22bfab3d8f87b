"""The part of elmo_tasks that AllenNLP sees. Its import changes AllenNLP and registers every component."""

from elmo_tasks import compat

compat.make_for_all()

# A module registers its components when it is imported. A predictor imports its model and reader.
import elmo_tasks.classification.linear  # noqa: E402
import elmo_tasks.classification.predictor  # noqa: E402
import elmo_tasks.commands  # noqa: E402
import elmo_tasks.coref.predictor  # noqa: E402
import elmo_tasks.language_model.callbacks  # noqa: E402
import elmo_tasks.language_model.predictor  # noqa: E402
import elmo_tasks.modules.layers  # noqa: E402
import elmo_tasks.ner.predictor  # noqa: E402
import elmo_tasks.sentence.predictor  # noqa: E402
import elmo_tasks.snli.predictor  # noqa: E402
import elmo_tasks.squad.predictor  # noqa: E402
import elmo_tasks.sst.predictor  # noqa: E402
import elmo_tasks.training.callbacks  # noqa: E402
import elmo_tasks.training.checkpointer  # noqa: E402
import elmo_tasks.training.optimizers  # noqa: E402, F401
from elmo_tasks.archives.opening import trained_archives  # noqa: E402
from elmo_tasks.page.notebook import to_html  # noqa: E402
from elmo_tasks.pipeline.command import run_predict  # noqa: E402
from elmo_tasks.pipeline.predictor import TaskPredictor  # noqa: E402
from elmo_tasks.pipeline.results import Shown  # noqa: E402
from elmo_tasks.pipeline.trained import load  # noqa: E402
from elmo_tasks.srl.predictor import SrlPredictor  # noqa: E402


def _open_finder_of_predicates() -> TaskPredictor | None:
    return load("predicates").predictor if "predicates" in trained_archives() else None


SrlPredictor.open_finder = staticmethod(_open_finder_of_predicates)  # type: ignore[method-assign]
Shown.to_html = staticmethod(to_html)  # type: ignore[method-assign]


def start_command() -> None:
    """Makes the changes of the command `allennlp`, in its process."""
    compat.make(compat.OF_COMMAND)
    compat.command.replace_predict(run_predict)


if compat.command.started():
    start_command()
