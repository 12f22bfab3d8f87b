"""The six tasks of the ELMo paper, and ELMo itself, as a plug-in suite for AllenNLP."""

from elmo_tasks import compat

compat.repair()

# Importing the packages registers their components.
from elmo_tasks import (  # noqa: E402
    archives,
    classification,
    commands,
    coref,
    elmo,
    language_model,
    modules,
    ner,
    snli,
    squad,
    srl,
    sst,
    training,
)
from elmo_tasks.commands import endings  # noqa: E402
from elmo_tasks.predictors import command  # noqa: E402

# AllenNLP's own commands open archives, predict and end as ours do.
archives.install()
command.install()
endings.install()

__version__ = "0.1.0"
__all__ = [
    "archives",
    "classification",
    "commands",
    "coref",
    "elmo",
    "language_model",
    "modules",
    "ner",
    "snli",
    "squad",
    "srl",
    "sst",
    "training",
]
