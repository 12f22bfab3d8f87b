"""
AllenNLP's own ELMo on our engine. Archives and configs with `elmo_token_embedder`, and code that calls
`allennlp.modules.elmo.Elmo`, run unchanged and faster.

    allennlp evaluate OLD_MODEL.tar.gz TEXT --include-package elmo_tasks.drop_in

or, in Python, `import elmo_tasks.drop_in`. The state is carried from batch to batch, as AllenNLP does; with
`elmo_tasks.drop_in_stateless` instead, or `install(stateful=False)`, each sentence has the same vectors in
any batch.

`allennlp.commands.elmo`, which AllenNLP 1.0 dropped, exists again with its `ElmoEmbedder`, for flair, SeqVec,
bio_embeddings and similar code. It carries no state between calls.
"""

import sys

import allennlp.commands
import allennlp.modules
import allennlp.modules.elmo
from allennlp.modules.token_embedders import elmo_token_embedder

from elmo_tasks.drop_in import embedder
from elmo_tasks.drop_in.elmo import AllenNlpElmo, Elmo

__all__ = ["AllenNlpElmo", "Elmo", "install", "uninstall"]


def install(*, stateful: bool = True) -> None:
    """Replaces AllenNLP's `Elmo` by ours in new models; it carries its state, as there, if `stateful`."""
    Elmo.stateful = stateful
    _put(Elmo)
    # A model that is imported already, such as `bcn`, takes AllenNLP's class for its parameter `elmo`.
    AllenNlpElmo.from_params = Elmo.from_params
    sys.modules["allennlp.commands.elmo"] = allennlp.commands.elmo = embedder


def uninstall() -> None:
    """Restores AllenNLP's class; an `Elmo` of ours that is made by hand carries its state again."""
    Elmo.stateful = True
    if allennlp.modules.elmo.Elmo is Elmo:
        _put(AllenNlpElmo)
        del AllenNlpElmo.from_params
        del sys.modules["allennlp.commands.elmo"], allennlp.commands.elmo


def _put(elmo: type) -> None:
    for module in (allennlp.modules.elmo, allennlp.modules, elmo_token_embedder):
        module.Elmo = elmo


install()
