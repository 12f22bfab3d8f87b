"""
SNLI beside allennlp-models' `esim` of the same sizes, optimizer, batch size, words and vocabulary.

The folder holds `train.*` and `dev.*`. Timed with ELMo, both have the same frozen biLM at their input.
"""

import json
from itertools import islice
from pathlib import Path

from benchmarks.configs import Settings, bilstm, feedforward, with_stock_training
from benchmarks.quality import Comparison
from elmo_tasks.data.input_files import read_lines


class Snli(Comparison):
    config, peer_package = "snli", "allennlp_models.pair_classification"
    metric, unit, suffix = "accuracy", "pairs", ".jsonl"
    epochs, timed = 10, (1000, 200)
    timed_elmo = "elmo-input-computed"

    def some(self, files: list[Path], number: int | None) -> str:
        """The first pairs with a label."""
        lines = (line for _, line in read_lines(files[0]) if line and json.loads(line)["gold_label"] != "-")
        return "".join(f"{line}\n" for line in islice(lines, number))

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        """Of stock parts, but the reader, so that words are the same."""
        model = ours["model"]
        embedder, hidden, dropout = (model[key] for key in ("text_field_embedder", "hidden_size", "dropout"))
        ours["model"] = {
            "type": "esim",
            "dropout": dropout,
            "text_field_embedder": embedder,
            "encoder": bilstm(embedder["token_embedders"]["tokens"]["embedding_dim"] + elmo_dim, hidden),
            "matrix_attention": {"type": "dot_product"},
            "projection_feedforward": feedforward(8 * hidden, hidden),
            "inference_encoder": bilstm(hidden, hidden),
            "output_feedforward": feedforward(8 * hidden, hidden, dropout=dropout),
            "output_logit": feedforward(hidden, 3, last="linear"),
        }
        return with_stock_training(ours, metric="+accuracy", sorting_keys=["premise"])


_TASK = Snli()
add_arguments, run = _TASK.add_arguments, _TASK.run
