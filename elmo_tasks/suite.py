"""The part of elmo_tasks that AllenNLP sees. Its import repairs AllenNLP and registers every component."""

from elmo_tasks import compat

compat.repair()

# Importing the packages registers their components.
from elmo_tasks import (  # noqa: E402
    classification,  # noqa: F401
    commands,  # noqa: F401
    coref,  # noqa: F401
    language_model,  # noqa: F401
    modules,  # noqa: F401
    ner,  # noqa: F401
    snli,  # noqa: F401
    squad,  # noqa: F401
    srl,  # noqa: F401
    sst,  # noqa: F401
    training,  # noqa: F401
)
from elmo_tasks.elmo import (  # noqa: E402
    token_embedder,  # noqa: F401
)
from elmo_tasks.pipeline import command  # noqa: E402

compat.commands.replace_predict(command.PredictManager, command.get_predictor)
