"""
The six tasks of the ELMo paper, and ELMo itself, as a plug-in suite for AllenNLP.

`Elmo`, `ElmoEmbedder` and `ElmoVectorizer` need no AllenNLP. Every name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_tasks import registration

if TYPE_CHECKING:
    from elmo_tasks import (
        classification,
        commands,
        compat,
        coref,
        elmo,
        language_model,
        modules,
        ner,
        sentence,
        snli,
        squad,
        srl,
        sst,
        training,
    )
    from elmo_tasks.elmo import Elmo
    from elmo_tasks.embedding.embedder import ElmoEmbedder
    from elmo_tasks.libraries.vectorizer import ElmoVectorizer
    from elmo_tasks.pipeline.trained import load

__version__ = "0.5.1"
__all__ = [
    "Elmo",
    "ElmoEmbedder",
    "ElmoVectorizer",
    "classification",
    "commands",
    "compat",
    "coref",
    "elmo",
    "language_model",
    "load",
    "modules",
    "ner",
    "sentence",
    "snli",
    "squad",
    "srl",
    "sst",
    "training",
]
_NAMES = {
    "Elmo": "elmo",
    "ElmoEmbedder": "embedding.embedder",
    "ElmoVectorizer": "libraries.vectorizer",
    "load": "pipeline.trained",
}
"""The modules of the names that are no packages."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path = _NAMES.get(name, name)
    if registration.needs_allennlp(path):
        registration.import_suite()
    module = import_module(f"elmo_tasks.{path}")
    return getattr(module, name) if name in _NAMES else module


registration.install()
