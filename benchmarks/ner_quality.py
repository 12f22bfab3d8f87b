"""
NER without ELMo, side by side with allennlp-models' `crf_tagger` at the same sizes and settings: dev F1 and
the time of an epoch, over several seeds, the two systems in turn.

    python benchmarks/ner_quality.py DATA_FOLDER [--seeds 13 14 15] [--epochs 25] [--ours-only]

The folder holds `train.*` and `dev.*` in CoNLL columns; two-column files are read with `--columns word tag`.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import allennlp
import allennlp_models.tagging  # noqa: F401 (registers the peer)
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.training import TrainerCallback

import elmo_tasks  # noqa: F401 (registers ours)
from elmo_tasks.paths import bundled


@TrainerCallback.register("epoch_times")
class EpochTimes(TrainerCallback):
    """Seconds of each epoch, training and validation together."""

    times: list[float] = []  # noqa: RUF012 (one run at a time)

    def on_start(self, *args: Any, **kwargs: Any) -> None:
        EpochTimes.times.clear()
        self._last = time.perf_counter()

    def on_epoch(self, *args: Any, **kwargs: Any) -> None:
        now = time.perf_counter()
        EpochTimes.times.append(now - self._last)
        self._last = now


def ours(config: str, data: Path, columns: list[str], epochs: int, seed: int) -> dict[str, Any]:
    settings = Params.from_file(str(bundled(f"training_configs/{config}.jsonnet"))).as_dict()
    settings |= dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed)
    settings["train_data_path"] = str(next(data.glob("train.*")))
    settings["validation_data_path"] = str(next(data.glob("dev.*")))
    settings["dataset_reader"]["columns"] = columns
    # Both systems train for all epochs, and are scored at their best one.
    settings["trainer"] |= {"num_epochs": epochs, "patience": None}
    settings["trainer"]["callbacks"] = [{"type": "epoch_times"}]
    return settings


def peer(data: Path, epochs: int, seed: int) -> dict[str, Any]:
    """The same sizes, optimizer and batches, of stock parts."""
    settings = ours("ner", data, ["word", "pos", "chunk", "tag"], epochs, seed)
    model = settings["model"]
    settings["dataset_reader"] = {
        "type": "conll2003",
        "coding_scheme": "BIOUL",
        "token_indexers": settings["dataset_reader"]["token_indexers"],
    }
    embedders = model["text_field_embedder"]["token_embedders"]
    cnn = embedders["token_characters"]
    embedders["token_characters"] = {
        "type": "character_encoding",
        "embedding": {"embedding_dim": cnn["embedding_dim"], "vocab_namespace": "token_characters"},
        "encoder": {
            "type": "cnn",
            "embedding_dim": cnn["embedding_dim"],
            "num_filters": cnn["num_filters"],
            "ngram_filter_sizes": [cnn["width"]],
            "conv_layer_activation": "relu",
        },
    }
    settings["dataset_reader"]["token_indexers"]["token_characters"]["min_padding_length"] = cnn["width"]
    first, second = model["hidden_sizes"]
    embedded = embedders["tokens"]["embedding_dim"] + cnn["num_filters"]
    settings["model"] = {
        "type": "crf_tagger",
        "label_encoding": "BIOUL",
        "constrain_crf_decoding": True,
        "calculate_span_f1": True,
        "dropout": model["dropout"],
        "text_field_embedder": model["text_field_embedder"],
        "encoder": {
            "type": "compose",
            "encoders": [
                {"type": "lstm", "input_size": size, "hidden_size": hidden, "bidirectional": True}
                for size, hidden in ((embedded, first), (2 * first, second))
            ],
        },
    }
    for loader in ("data_loader", "validation_data_loader"):
        settings[loader]["batch_sampler"]["type"] = "bucket"
    settings["trainer"] |= {"validation_metric": "+f1-measure-overall", "checkpointer": {}}
    settings["trainer"]["optimizer"]["type"] = "adam"
    return settings


def run(settings: dict[str, Any]) -> tuple[float, float]:
    """Dev F1 of the best epoch in percent, and the median seconds of an epoch but the first."""
    metric = settings["trainer"]["validation_metric"].removeprefix("+")
    with tempfile.TemporaryDirectory() as folder:
        train_model(Params(settings), folder, force=True, file_friendly_logging=True)
        metrics = json.loads((Path(folder) / "metrics.json").read_text())
    return 100 * metrics[f"best_validation_{metric}"], statistics.median(EpochTimes.times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=6, help="short runs for the time of an epoch")
    parser.add_argument("--columns", nargs="+", default=["word", "pos", "chunk", "tag"])
    parser.add_argument("--config", default="ner", help="of ours: ner or ner_elmo")
    parser.add_argument("--ours-only", action="store_true")
    arguments = parser.parse_args()

    def systems(epochs: int, seed: int) -> dict[str, dict[str, Any]]:
        both = {"elmo_ner": ours(arguments.config, arguments.data, arguments.columns, epochs, seed)}
        if not arguments.ours_only:
            both["crf_tagger"] = peer(arguments.data, epochs, seed)
        return both

    print(
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, Python "
        f"{platform.python_version()}, torch {torch.__version__}, allennlp {allennlp.__version__}"
    )
    scores: dict[str, list[float]] = {}
    for seed in arguments.seeds:
        for name, settings in systems(arguments.epochs, seed).items():
            score, seconds = run(settings)
            scores.setdefault(name, []).append(score)
            print(f"seed {seed}  {name:<11} dev F1 {score:5.2f}  {seconds:5.2f} s an epoch")
    for name, values in scores.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{name:<11} dev F1 {statistics.mean(values):.2f} (standard deviation {spread:.2f})")
    if arguments.rounds and not arguments.ours_only:
        # The speed of a shared machine drifts: short runs in turn, compared pair by pair.
        ratios = []
        for seed in range(arguments.rounds):
            seconds_of = {name: run(settings)[1] for name, settings in systems(4, seed).items()}
            ratios.append(seconds_of["elmo_ner"] / seconds_of["crf_tagger"])
            print("round {}  {elmo_ner:.2f} s / {crf_tagger:.2f} s an epoch".format(seed, **seconds_of))
        print(
            f"time of an epoch, ours / crf_tagger: median {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
