"""
SNLI on a folder that holds `train.*` and `dev.*`, in one of three comparisons:

    python benchmarks/snli_quality.py DATA_FOLDER [--limit 5000] [--seeds 13 14 15] [--epochs 10]
    python benchmarks/snli_quality.py DATA_FOLDER --elmo [--size original]
    python benchmarks/snli_quality.py DATA_FOLDER --tables

- Without ELMo, beside allennlp-models' `esim` of the same sizes, optimizer, batch size, words and vocabulary:
  dev accuracy, and the time of an epoch.
- `--elmo`: the time of an epoch with the same frozen biLM at the input of both systems, AllenNLP's own
  `elmo_token_embedder` there, no activations kept here; then dev accuracy of ours with the ELMo that comes
  with the project, and without.
- `--tables`: Tables 2 and 3 of Peters et al. 2018: the layers and the lambda of the mix, and the placement.

Accuracy is that of the best epoch, on all of `dev.*`. The time of an epoch is that of training and validation
from the second epoch on, with the first pairs of both files.
"""

import argparse
import copy
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import allennlp_models.pair_classification  # noqa: F401 (registers the peer)
from allennlp.common import Params
from elmo_speed import SIZES, Files, machine, random_weights, shipped_weights
from side_by_side import Settings, epoch_times, mean_scores, quiet

import elmo_tasks.snli  # noqa: F401 (registers ours)
from elmo_tasks.elmo import BiLmOptions
from elmo_tasks.paths import bundled

TABLES: dict[str, dict[str, Any]] = {
    "top layer": {"layers": "top", "mix_l2": None},
    "all layers, lambda 1": {"mix_l2": 1.0},
    "all, lambda .001, input+output": {},
    "input": {"placement": "input"},
    "output": {"placement": "output"},
}
"""What the rows change in the `elmo` block of `snli_elmo`, which is the third one."""
TIMED_EPOCHS = 3


def ours(
    config: str, data: Path, seed: int, epochs: int, train: int | None, dev: int | None = None
) -> Settings:
    """A config for the first `train` and `dev` pairs; all epochs are trained, and the best one is scored."""
    settings = Params.from_file(str(bundled(f"training_configs/{config}.jsonnet"))).as_dict(quiet=True)
    settings |= dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed)
    settings["train_data_path"] = str(next(data.glob("train.*")))
    settings["validation_data_path"] = str(next(data.glob("dev.*")))
    settings["validation_dataset_reader"] = copy.deepcopy(settings["dataset_reader"]) | {"max_instances": dev}
    settings["dataset_reader"]["max_instances"] = train
    settings["trainer"] |= {"num_epochs": epochs, "patience": None}
    settings["trainer"]["callbacks"] = [{"type": "epoch_times"}]
    return settings


def peer(baseline: Settings) -> Settings:
    """The same of stock parts, but the reader, so that words are the same."""
    settings = copy.deepcopy(baseline)
    model = settings["model"]
    embedder, hidden, dropout = (model[key] for key in ("text_field_embedder", "hidden_size", "dropout"))

    def lstm(size: int) -> Settings:
        return {"type": "lstm", "input_size": size, "hidden_size": hidden, "bidirectional": True}

    def layer(size: int, output: int, activation: str = "relu", dropout: float = 0.0) -> Settings:
        sizes = {"input_dim": size, "num_layers": 1, "hidden_dims": output}
        return {**sizes, "activations": activation, "dropout": dropout}

    settings["model"] = {
        "type": "esim",
        "dropout": dropout,
        "text_field_embedder": embedder,
        "encoder": lstm(embedder["token_embedders"]["tokens"]["embedding_dim"]),
        "matrix_attention": {"type": "dot_product"},
        "projection_feedforward": layer(8 * hidden, hidden),
        "inference_encoder": lstm(hidden),
        "output_feedforward": layer(8 * hidden, hidden, dropout=dropout),
        "output_logit": layer(hidden, 3, "linear"),
    }
    for loader in ("data_loader", "validation_data_loader"):
        settings[loader]["batch_sampler"] |= {"type": "bucket", "sorting_keys": ["premise"]}
    settings["trainer"]["checkpointer"] = {}
    settings["trainer"]["optimizer"]["type"] = "adam"
    return settings


def add_elmo(ours: Settings, peer: Settings, files: Files) -> None:
    """The same biLM at the input of both."""
    options_file, weight_file = files
    block = {"options_file": options_file, "weight_file": weight_file, "dropout": 0.5}
    ours["model"]["elmo"] = {"placement": "input", **block}
    peer["model"]["text_field_embedder"]["token_embedders"]["elmo"] = {"type": "elmo_token_embedder", **block}
    peer["model"]["encoder"]["input_size"] += BiLmOptions.read(options_file).output_dim
    for settings, indexer in ((ours, "elmo_character_ids"), (peer, "elmo_characters")):
        for reader in ("dataset_reader", "validation_dataset_reader"):
            settings[reader]["token_indexers"]["elmo"] = {"type": indexer}


def scored(arguments: argparse.Namespace, seed: int, elmo: dict[str, Any] | None = None) -> Settings:
    """Of ours, without ELMo or with these changes of its block."""
    config = "snli" if elmo is None else "snli_elmo"
    settings = ours(config, arguments.data, seed, arguments.epochs, arguments.limit)
    if elmo is not None:
        settings["model"]["elmo"] |= {"activations": arguments.activations} | elmo
    return settings


def beside_peer(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    baseline = scored(arguments, seed)
    return {"elmo_snli": baseline, "esim": peer(baseline)}


def gain(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    return {"without ELMo": scored(arguments, seed), "with ELMo": scored(arguments, seed, {})}


def tables(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    return {row: scored(arguments, seed, changes) for row, changes in TABLES.items()}


def timed(arguments: argparse.Namespace, files: Files | None, seed: int) -> dict[str, Settings]:
    baseline = ours("snli", arguments.data, seed, TIMED_EPOCHS, *arguments.timed)
    stock = peer(baseline)
    if files is not None:
        add_elmo(baseline, stock, files)
    return {"elmo_snli": baseline, "esim": stock}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, help="training pairs that are used, the first ones; default all")
    parser.add_argument("--seeds", type=int, nargs="*", default=[13, 14, 15])
    parser.add_argument("--epochs", type=int, default=10, help="at least 2")
    parser.add_argument("--rounds", type=int, default=3, help="short runs for the time of an epoch")
    parser.add_argument("--timed", type=int, nargs=2, default=(1000, 200), help="pairs of their two files")
    parser.add_argument("--size", default="original", choices=[*SIZES, "shipped"], help="of the timed biLM")
    comparison = parser.add_mutually_exclusive_group()
    comparison.add_argument("--elmo", action="store_true")
    comparison.add_argument("--tables", action="store_true")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    quiet()
    print(f"Machine: {machine()}.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        arguments.activations = f"{folder}/activations"
        if arguments.tables:
            mean_scores(partial(tables, arguments), arguments.seeds)
        elif arguments.elmo:
            shipped = arguments.size == "shipped"
            files = shipped_weights() if shipped else random_weights(Path(folder), arguments.size)
            epoch_times(partial(timed, arguments, files), arguments.rounds)
            scores = mean_scores(partial(gain, arguments), arguments.seeds)
            if scores:
                without, with_elmo = scores.values()
                print(f"relative error reduction {(with_elmo - without) / (100 - without):.1%}")
        else:
            mean_scores(partial(beside_peer, arguments), arguments.seeds)
            epoch_times(partial(timed, arguments, None), arguments.rounds)


if __name__ == "__main__":
    main()
