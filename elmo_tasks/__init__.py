"""The tasks of the ELMo paper for AllenNLP. Importing this package registers all components."""

from elmo_tasks import compat

compat.repair()

from elmo_tasks import elmo, ner, training  # noqa: E402

__version__ = "0.1.0"
__all__ = ["elmo", "ner", "training"]
