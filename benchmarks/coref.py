"""
Coreference beside allennlp-models' `coref` of the same sizes, optimizer, words and vocabulary.

The folder holds `train/` and `dev/` in CoNLL-2012 columns. Both train on windows of
`model.max_training_sentences` sentences of a document: ours on one that is drawn each time, the peer on the
first. For AllenNLP's ELMo in the peer, a document is one sentence. ELMo of ours keeps no activations where
the time is to be compared: `--systems ours peer elmo-computed peer-elmo`.

F1 is the average of MUC, B-cubed and CEAF-e by our metric, for both, in the epoch that is best by its own.
Gold clusters of one mention, which neither proposes, count as missed; OntoNotes has none, so there is a score
without them, too.
"""

import copy
from collections.abc import Iterable
from pathlib import Path

from allennlp.common.util import import_module_and_submodules
from allennlp.data import Instance

from benchmarks import coref_variants  # noqa: F401
from benchmarks.configs import Settings, bilstm, feedforward
from benchmarks.quality import Comparison
from elmo_tasks.compat.archives import open_archive
from elmo_tasks.coref.documents import Cluster
from elmo_tasks.coref.metric import CorefScores
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.training.experiments import Run

WITHOUT_SINGLETONS = "average F1 without singletons"


class Coref(Comparison):
    config, peer_package = "coref", "allennlp_models.coref"
    metric, unit, suffix = "average F1", "files", ".conll"
    epochs, timed = 20, (8, 2)

    def some(self, files: list[Path], number: int | None) -> str:
        """The first documents in one file, as the peer reads it."""
        return "".join(path.read_text(encoding="utf-8") for path in files[:number])

    def scores(self, run: Run) -> dict[str, float]:
        import_module_and_submodules(self.peer_package)
        archive = open_archive(run.folder / "model.tar.gz")
        model, reader = archive.model.eval(), archive.validation_dataset_reader
        dev = run.config["validation_data_path"]
        proposed = []
        for instance in reader.read(dev):
            reader.apply_token_indexers(instance)
            proposed.append(model.forward_on_instance(instance)["clusters"])
        return {
            self.metric: average_f1(proposed, CorefReader().read(dev)),
            WITHOUT_SINGLETONS: average_f1(proposed, CorefReader(singletons=False).read(dev)),
        }

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        model = ours["model"]
        sizes, hidden, dropout = model["feedforward_sizes"], model["hidden_sizes"][0], model["dropout"]
        embedders = model["text_field_embedder"]["token_embedders"]
        cnn = embedders["token_characters"]["encoder"]
        words = embedders["tokens"]["embedding_dim"] + elmo_dim
        words += cnn["num_filters"] * len(cnn["ngram_filter_sizes"])
        span = words + 4 * hidden + model["feature_dim"]
        reader = {
            "type": "coref",
            "token_indexers": ours["dataset_reader"]["token_indexers"],
            "max_span_width": model["max_span_width"],
        }
        ours["dataset_reader"] = reader | {"max_sentences": model["max_training_sentences"]}
        ours["validation_dataset_reader"] = copy.deepcopy(reader)
        ours["model"] = {
            "type": "coref",
            "text_field_embedder": model["text_field_embedder"],
            "context_layer": bilstm(words, hidden),
            "mention_feedforward": feedforward(span, *sizes, dropout=dropout),
            "antecedent_feedforward": feedforward(3 * span + model["feature_dim"], *sizes, dropout=dropout),
            "feature_size": model["feature_dim"],
            **{
                key: model[key]
                for key in ("max_span_width", "spans_per_word", "max_antecedents", "lexical_dropout")
            },
        }
        ours["data_loader"] = {"batch_size": 1, "shuffle": True}
        ours["validation_data_loader"] = {"batch_size": 1}
        ours["trainer"] |= {"validation_metric": "+coref_f1", "checkpointer": {}}
        ours["trainer"]["optimizer"]["type"] = "adam"
        return ours


def average_f1(proposed: Iterable[list[Cluster]], documents: Iterable[Instance]) -> float:
    """The average F1 of the clusters that are proposed for each document."""
    metric = CorefScores()
    for clusters, document in zip(proposed, documents, strict=True):
        metric(clusters, document["metadata"].metadata.clusters)
    return metric.get_metric()["average_f1"]


_TASK = Coref()
add_arguments, run = _TASK.add_arguments, _TASK.run
