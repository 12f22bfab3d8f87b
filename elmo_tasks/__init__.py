"""The six tasks of the ELMo paper, and ELMo itself, as a plug-in suite for AllenNLP."""

from elmo_tasks import compat

compat.repair()

# Importing the packages registers their components.
from elmo_tasks import (  # noqa: E402
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

__version__ = "0.1.0"
__all__ = [
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
