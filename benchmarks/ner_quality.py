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
    """The same embedder, layers, optimizer and batches around the stock reader and model."""
    settings = ours("ner", data, ["word", "pos", "chunk", "tag"], epochs, seed)
    model = settings["model"]
    settings["dataset_reader"] = {
        "type": "conll2003",
        "coding_scheme": "BIOUL",
        "token_indexers": settings["dataset_reader"]["token_indexers"],
    }
    first, second = model["hidden_sizes"]
    embedded = 50 + 128
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
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--columns", nargs="+", default=["word", "pos", "chunk", "tag"])
    parser.add_argument("--config", default="ner", help="of ours: ner or ner_elmo")
    parser.add_argument("--ours-only", action="store_true")
    arguments = parser.parse_args()

    print(
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, Python "
        f"{platform.python_version()}, torch {torch.__version__}, allennlp {allennlp.__version__}"
    )
    results: dict[str, list[tuple[float, float]]] = {"elmo_ner": [], "crf_tagger": []}
    for seed in arguments.seeds:
        systems = {
            "elmo_ner": ours(arguments.config, arguments.data, arguments.columns, arguments.epochs, seed)
        }
        if not arguments.ours_only:
            systems["crf_tagger"] = peer(arguments.data, arguments.epochs, seed)
        for name, settings in systems.items():
            results[name].append(run(settings))
            print(f"seed {seed}  {name:<11} dev F1 %5.2f  %5.2f s an epoch" % results[name][-1])
    for name, runs in results.items():
        if runs:
            scores, seconds = zip(*runs, strict=True)
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            print(
                f"{name:<11} dev F1 {statistics.mean(scores):.2f} (standard deviation "
                f"{spread:.2f}), {statistics.median(seconds):.2f} s an epoch"
            )
    if results["crf_tagger"]:
        pairs = zip(results["elmo_ner"], results["crf_tagger"], strict=True)
        ratio = statistics.median(ours_run[1] / peer_run[1] for ours_run, peer_run in pairs)
        print(f"time of an epoch, ours / crf_tagger: {ratio:.2f}")


if __name__ == "__main__":
    main()
