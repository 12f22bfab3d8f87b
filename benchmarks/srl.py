"""
Semantic roles beside allennlp-models' `srl` of the same sizes, optimizer, batch size and vocabulary.

The folder holds `train.*` and `dev.*` in the columns of CoNLL 2012. Sentences without predicates are left
out. F1 is without the predicates, as both report it. The peer marks every word of a predicate at its input,
its C-V included, ours only the one that stands for it.
"""

from pathlib import Path

from benchmarks.configs import Settings, add_dev_tags, with_stock_training
from benchmarks.quality import Comparison

_DOCUMENT, _POS = "#", 4


class Srl(Comparison):
    config, peer_package = "srl", "allennlp_models.structured_prediction"
    metric, unit, suffix = "F1", "sentences", ".gold_conll"
    epochs, timed = 10, (200, 50)

    def some(self, files: list[Path], number: int | None) -> str:
        """
        The first sentences with predicates, without parts of speech: then the peer builds no trees, which
        stop it at some brackets.
        """
        sentences: list[str] = []
        for block in files[0].read_text(encoding="utf-8").split("\n\n"):
            rows = [line.split() for line in block.splitlines() if not line.startswith(_DOCUMENT)]
            if any("(V*" in cell for row in rows for cell in row):
                rows = [[*row[:_POS], "XX", *row[_POS + 1 :]] for row in rows]
                sentences.append("".join("\t".join(row) + "\n" for row in rows))
            if len(sentences) == number:
                break
        return "\n".join(sentences)

    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        model = ours["model"]
        embedder = model["text_field_embedder"]
        words = embedder["token_embedders"]["tokens"]["embedding_dim"]
        add_dev_tags(ours)
        ours["dataset_reader"]["type"] = "srl"
        ours["model"] = {
            "type": "srl",
            "text_field_embedder": embedder,
            "binary_feature_dim": model["predicate_dim"],
            "encoder": {
                "type": "alternating_lstm",
                "input_size": words + model["predicate_dim"] + elmo_dim,
                "hidden_size": model["hidden_size"],
                "num_layers": model["num_layers"],
                "recurrent_dropout_probability": model["dropout"],
                "use_input_projection_bias": False,
            },
        }
        # It reads folders.
        for path in ("train_data_path", "validation_data_path"):
            ours[path] = str(Path(ours[path]).parent)
        return with_stock_training(
            ours, metric="+f1-measure-overall", optimizer=None, sorting_keys=["tokens"]
        )


_TASK = Srl()
add_arguments, run = _TASK.add_arguments, _TASK.run
