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
import tempfile
from functools import partial
from pathlib import Path

from elmo_speed import machine
from side_by_side import Settings, mean_scores, print_gain, quiet, read_config

import elmo_tasks


def systems(arguments: argparse.Namespace, activations: str, seed: int) -> dict[str, Settings]:
    names = arguments.task, f"{arguments.task}_elmo"
    files = arguments.train, arguments.dev
    without, with_elmo = (
        read_config(name, *files, seed=seed, overrides=arguments.overrides, callbacks=True) for name in names
    )
    with_elmo["model"]["elmo"] |= {"activations": activations} | arguments.elmo
    return dict(zip(names, (without, with_elmo), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])
    parser.add_argument("--overrides", type=json.loads, default={})
    parser.add_argument("--elmo", type=json.loads, default={})
    arguments = parser.parse_args()
    quiet()
    print(f"Machine: {machine()}, elmo_tasks {elmo_tasks.__version__}.", flush=True)
    with tempfile.TemporaryDirectory() as activations:
        means = mean_scores(partial(systems, arguments, activations), arguments.seeds)
    print_gain(means, *means)


if __name__ == "__main__":
    main()
