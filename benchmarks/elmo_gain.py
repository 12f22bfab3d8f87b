"""
What ELMo adds to a task: the baseline and the same with ELMo, over several seeds.

    python benchmarks/elmo_gain.py ner --train TRAIN --dev DEV [--seeds 13 14 15] [--overrides JSON]
        [--elmo BLOCK]

The task is the name of its config: `ner` is trained beside `ner_elmo`, both for all their epochs, and scored
on DEV at the best one. `--overrides` are those of `allennlp train`, for both configs; `--elmo` is merged into
the `elmo` block, for other weights than the shipped ones. The activations of the frozen biLM are kept for all
seeds. At the end: means with their standard deviations, and what share of the baseline's error is gone.
"""

import argparse
import json
import logging
import os
import platform
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.params import with_overrides

import elmo_tasks
from elmo_tasks.paths import bundled


def settings(config: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    given = {
        **dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed),
        "train_data_path": arguments.train,
        "validation_data_path": arguments.dev,
        "trainer.patience": None,
    }
    path = str(bundled(f"training_configs/{config}.jsonnet"))
    both = with_overrides(Params.from_file(path, arguments.overrides).as_dict(quiet=True), given)
    if "elmo" in both["model"]:
        both["model"]["elmo"] |= {"activations": arguments.activations} | json.loads(arguments.elmo)
    return both


def best_score(of: dict[str, Any]) -> float:
    """In percent."""
    metric = of["trainer"]["validation_metric"].removeprefix("+")
    with tempfile.TemporaryDirectory() as folder:
        train_model(Params(of), folder, force=True, file_friendly_logging=True)
        metrics = json.loads((Path(folder) / "metrics.json").read_text())
    return 100 * metrics[f"best_validation_{metric}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])
    parser.add_argument("--overrides", default="{}")
    parser.add_argument("--elmo", default="{}")
    arguments = parser.parse_args()
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    logging.disable(logging.INFO)
    print(
        f"{platform.machine()}, {torch.get_num_threads()} threads, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}, elmo_tasks {elmo_tasks.__version__}"
    )
    systems = arguments.task, f"{arguments.task}_elmo"
    scores: dict[str, list[float]] = {system: [] for system in systems}
    with tempfile.TemporaryDirectory() as arguments.activations:
        for seed in arguments.seeds:
            for system in systems:
                scores[system].append(best_score(settings(system, arguments, seed)))
                print(f"seed {seed}  {system:<12} {scores[system][-1]:.2f}", flush=True)
    means = {system: statistics.mean(values) for system, values in scores.items()}
    for system, values in scores.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{system:<12} {means[system]:.2f} (standard deviation {spread:.2f}, {len(values)} seeds)")
    without, with_elmo = (means[system] for system in systems)
    print(f"relative error reduction {(with_elmo - without) / (100 - without):.1%}")


if __name__ == "__main__":
    main()
