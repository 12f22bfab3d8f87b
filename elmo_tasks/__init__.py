"""
The six tasks of the ELMo paper, and ELMo itself, as a plug-in suite for AllenNLP; and `Elmo` and
`ElmoEmbedder`, which need no AllenNLP.
"""

from importlib import import_module
from typing import Any

from elmo_tasks import registration

__version__ = "0.2.0"
__all__ = [
    "Elmo",
    "ElmoEmbedder",
    "classification",
    "commands",
    "compat",
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
_LIGHT = {"Elmo": "elmo_tasks.elmo", "ElmoEmbedder": "elmo_tasks.embedding"}


def __getattr__(name: str) -> Any:
    """What `__all__` names, imported when it is asked for."""
    if name in _LIGHT:
        return getattr(import_module(_LIGHT[name]), name)
    if name in __all__:
        return import_module(f"elmo_tasks.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


registration.install()
