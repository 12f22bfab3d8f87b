"""The six tasks of the ELMo paper, and ELMo itself, as a plug-in suite for AllenNLP."""

from elmo_tasks import compat

compat.repair()

# Importing the packages registers their components.
from elmo_tasks import commands, elmo, language_model, modules, ner, snli, sst, training  # noqa: E402

__version__ = "0.1.0"
__all__ = ["commands", "elmo", "language_model", "modules", "ner", "snli", "sst", "training"]
