"""
SNLI on a folder that holds `train.*` and `dev.*`, beside allennlp-models' `esim` of the same sizes,
optimizer, batch size, words and vocabulary.

    python benchmarks/snli_quality.py DATA_FOLDER [--limit 5000] [--dev-limit 2000] [--seeds 13 14 15]
        [--epochs 10] [--rounds 3] [--size original] [--overrides JSON]
    python benchmarks/snli_quality.py DATA_FOLDER --tables

First dev accuracy of ours, of the peer, and of ours with the ELMo that comes with the project: that of the
best epoch. Nothing is scored where no seed follows `--seeds`.

Then the time of an epoch of both, without ELMo, and with the same frozen biLM of `--size` at the input of
both, AllenNLP's own `elmo_token_embedder` there, no activations kept here: training and validation from the
second epoch on, with the first pairs of both files. Nothing is timed with `--rounds 0`.

`--tables`: instead of these, Tables 2 and 3 of Peters et al. 2018: the layers and the lambda of the mix, and
the placement.
"""

import argparse
import copy
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import allennlp_models.pair_classification  # noqa: F401 (registers the peer)
from elmo_speed import SIZES, Files, machine, weights
from side_by_side import (
    Settings,
    add_elmo_indexers,
    add_runs,
    argument_parser,
    epoch_times,
    mean_scores,
    parts,
    print_gain,
    quiet,
    read_config,
)

import elmo_tasks.snli  # noqa: F401 (registers ours)
from elmo_tasks.elmo import BiLmOptions

TABLES: dict[str, dict[str, Any]] = {
    "top layer": {"layers": "top", "mix_l2": None},
    "all layers, lambda 1": {"mix_l2": 1.0},
    "all, lambda .001, input+output": {},
    "input": {"placement": "input"},
    "output": {"placement": "output"},
}
"""What the rows change in the `elmo` block of `snli_elmo`, which is the third one."""
TIMED_EPOCHS = 3
OURS, PEER, WITH_ELMO = "elmo_snli", "esim", "elmo_snli with ELMo"


def ours(
    config: str, arguments: argparse.Namespace, seed: int, epochs: int, train: int | None, dev: int | None
) -> Settings:
    """For the first `train` and `dev` pairs."""
    settings = read_config(
        config, *parts(arguments.data), seed=seed, epochs=epochs, overrides=arguments.overrides
    )
    settings["validation_dataset_reader"] = copy.deepcopy(settings["dataset_reader"]) | {"max_instances": dev}
    settings["dataset_reader"]["max_instances"] = train
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
    add_elmo_indexers(ours, peer)


def whole(arguments: argparse.Namespace, config: str, seed: int) -> Settings:
    return ours(config, arguments, seed, arguments.epochs, arguments.limit, arguments.dev_limit)


def with_elmo(arguments: argparse.Namespace, seed: int, changes: dict[str, Any]) -> Settings:
    """With these changes of the `elmo` block."""
    settings = whole(arguments, "snli_elmo", seed)
    settings["model"]["elmo"] |= {"activations": arguments.activations} | changes
    return settings


def scored(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    baseline = whole(arguments, "snli", seed)
    return {OURS: baseline, PEER: peer(baseline), WITH_ELMO: with_elmo(arguments, seed, {})}


def tables(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    return {row: with_elmo(arguments, seed, changes) for row, changes in TABLES.items()}


def timed(arguments: argparse.Namespace, files: Files | None, seed: int) -> dict[str, Settings]:
    baseline = ours("snli", arguments, seed, TIMED_EPOCHS, *arguments.timed)
    stock = peer(baseline)
    if files is None:
        return {OURS: baseline, PEER: stock}
    add_elmo(baseline, stock, files)
    return {WITH_ELMO: baseline, f"{PEER} with ELMo": stock}


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--limit", type=int, help="training pairs that are used, the first ones; default all")
    parser.add_argument(
        "--dev-limit", type=int, help="dev pairs that are scored, the first ones; default all"
    )
    add_runs(parser, epochs=10, timed=(1000, 200), what="pairs")
    parser.add_argument("--size", default="original", choices=[*SIZES, "shipped"], help="of the timed biLM")
    parser.add_argument("--tables", action="store_true")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    quiet()
    print(f"Machine: {machine()}.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        arguments.activations = f"{folder}/activations"
        if arguments.tables:
            mean_scores(partial(tables, arguments), arguments.seeds)
            return
        means = mean_scores(partial(scored, arguments), arguments.seeds)
        print_gain(means, OURS, WITH_ELMO)
        if arguments.rounds:
            for files in (None, weights(Path(folder), arguments.size)):
                epoch_times(partial(timed, arguments, files), arguments.rounds)


if __name__ == "__main__":
    main()
