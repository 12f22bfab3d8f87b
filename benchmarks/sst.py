"""
SST-5 beside allennlp-models' `bcn` of the same sizes, dropout, optimizer, batch size, phrases and vocabulary.

The folder holds the trees `train.*` and `dev.*`. Timed runs train on no phrases inside sentences; with ELMo,
both have the same frozen biLM at their input, AllenNLP's own `Elmo` there.
"""

from pathlib import Path
from typing import Any

from allennlp.data import DatasetReader, Instance

from benchmarks.configs import Settings, bilstm, feedforward, with_stock_training
from benchmarks.quality import Comparison, equally_spaced
from elmo_tasks.sst import SstReader
from elmo_tasks.sst.trees import NUM_LABELS


@DatasetReader.register("sst_for_peer")
class ReaderForPeer(SstReader):
    """The same words, phrases and vocabulary; the peer's `forward` takes no metadata."""

    def _instance(self, *args: Any, **kwargs: Any) -> Instance:
        instance = super()._instance(*args, **kwargs)
        del instance.fields["metadata"]
        return instance


class Sst(Comparison):
    config, peer_package = "sst", "allennlp_models.classification"
    metric, unit, suffix = "accuracy", "trees", ".txt"
    epochs, timed = 5, (1000, 200)
    timed_elmo = "elmo-input-computed"
    timed_overrides = {"dataset_reader.min_phrase_tokens": None}  # noqa: RUF012

    def some(self, files: list[Path], number: int | None) -> str:
        """Trees at like distances."""
        lines = files[0].read_text(encoding="utf-8").strip("\n").split("\n")
        return "".join(f"{line}\n" for line in equally_spaced(lines, number))

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        """Of stock parts, but the reader."""
        model = ours["model"]
        embedder, projection, hidden = (
            model[key] for key in ("text_field_embedder", "projection_size", "hidden_size")
        )
        words = embedder["token_embedders"]["tokens"]["embedding_dim"]
        dropout, sizes = model["classifier_dropout"], model["classifier_sizes"]
        ours["model"] = {
            "type": "bcn",
            "text_field_embedder": embedder,
            "embedding_dropout": model["dropout"],
            "pre_encode_feedforward": feedforward(words + elmo_dim, projection, dropout=model["dropout"]),
            "encoder": bilstm(projection, hidden),
            "integrator": bilstm(6 * hidden, hidden),
            "integrator_dropout": dropout,
            "output_layer": feedforward(
                8 * hidden, *sizes, NUM_LABELS, dropout=[dropout] * len(sizes) + [0.0], last="linear"
            ),
        }
        for reader in ("dataset_reader", "validation_dataset_reader"):
            ours[reader]["type"] = "sst_for_peer"
        return with_stock_training(ours, metric="+accuracy", sorting_keys=["tokens"])

    def plug_elmo(self, peer: Settings, block: Settings) -> None:
        peer["model"] |= {"elmo": {"num_output_representations": 1, **block}, "use_input_elmo": True}


_TASK = Sst()
add_arguments, run = _TASK.add_arguments, _TASK.run
