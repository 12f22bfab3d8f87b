"""
SST-5 on a folder that holds the trees `train.*` and `dev.*`, beside allennlp-models' `bcn` of the same sizes,
dropout, optimizer, batch size, phrases and vocabulary.

    python benchmarks/sst_quality.py DATA_FOLDER [--limit 2000] [--sentences] [--seeds 13 14 15] [--epochs 5]
        [--rounds 3] [--size original] [--overrides JSON]

First dev accuracy of ours, of the peer, and of ours with the ELMo that comes with the project: that of the
best epoch, on all sentences of `dev.*`. Nothing is scored where no seed follows `--seeds`.

Then the time of an epoch of both, without ELMo, and with the same frozen biLM of `--size` at the input of
both, AllenNLP's own `Elmo` there, no activations kept here: training and validation from the second epoch on,
with some sentences of both files, and no phrases inside them. Nothing is timed with `--rounds 0`.
"""

import argparse
import copy
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import allennlp_models.classification  # noqa: F401 (registers the peer)
from allennlp.data import DatasetReader, Instance
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

from elmo_tasks.elmo import BiLmOptions
from elmo_tasks.sst import SstReader

CLASSES = 5
TIMED_EPOCHS = 3
OURS, PEER, WITH_ELMO = "elmo_sst", "bcn", "elmo_sst with ELMo"


@DatasetReader.register("sst_for_peer")
class ReaderForPeer(SstReader):
    """The same words, phrases and vocabulary; the peer's `forward` takes no metadata."""

    def _instance(self, *args: Any, **kwargs: Any) -> Instance:
        instance = super()._instance(*args, **kwargs)
        del instance.fields["metadata"]
        return instance


def peer(baseline: Settings) -> Settings:
    """The same of stock parts, but the reader."""
    settings = copy.deepcopy(baseline)
    model = settings["model"]
    embedder, projection, hidden = (
        model[key] for key in ("text_field_embedder", "projection_size", "hidden_size")
    )
    dropout, classifier_dropout = model["dropout"], model["classifier_dropout"]
    sizes = [*model["classifier_sizes"], CLASSES]

    def lstm(size: int) -> Settings:
        return {"type": "lstm", "input_size": size, "hidden_size": hidden, "bidirectional": True}

    settings["model"] = {
        "type": "bcn",
        "text_field_embedder": embedder,
        "embedding_dropout": dropout,
        "pre_encode_feedforward": {
            "input_dim": embedder["token_embedders"]["tokens"]["embedding_dim"],
            "num_layers": 1,
            "hidden_dims": projection,
            "activations": "relu",
            "dropout": dropout,
        },
        "encoder": lstm(projection),
        "integrator": lstm(6 * hidden),
        "integrator_dropout": classifier_dropout,
        "output_layer": {
            "input_dim": 8 * hidden,
            "num_layers": len(sizes),
            "hidden_dims": sizes,
            "activations": ["relu"] * (len(sizes) - 1) + ["linear"],
            "dropout": [classifier_dropout] * (len(sizes) - 1) + [0.0],
        },
    }
    for reader in ("dataset_reader", "validation_dataset_reader"):
        settings[reader]["type"] = "sst_for_peer"
    for loader in ("data_loader", "validation_data_loader"):
        settings[loader]["batch_sampler"] |= {"type": "bucket", "sorting_keys": ["tokens"]}
    settings["trainer"]["checkpointer"] = {}
    settings["trainer"]["optimizer"]["type"] = "adam"
    return settings


def add_elmo(ours: Settings, peer: Settings, files: Files) -> None:
    """The same biLM at the input of both."""
    options_file, weight_file = files
    block = {"options_file": options_file, "weight_file": weight_file, "dropout": 0.5}
    ours["model"]["elmo"] = {"placement": "input", **block}
    peer["model"] |= {"elmo": {"num_output_representations": 1, **block}, "use_input_elmo": True}
    peer["model"]["pre_encode_feedforward"]["input_dim"] += BiLmOptions.read(options_file).output_dim
    add_elmo_indexers(ours, peer)


def scored(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    baseline, with_elmo = (
        read_config(
            name,
            *parts(arguments.used),
            seed=seed,
            epochs=arguments.epochs,
            overrides=arguments.overrides,
        )
        for name in ("sst", "sst_elmo")
    )
    if arguments.sentences:
        for settings in (baseline, with_elmo):
            settings["dataset_reader"]["min_phrase_tokens"] = None
    with_elmo["model"]["elmo"]["activations"] = arguments.activations
    return {OURS: baseline, PEER: peer(baseline), WITH_ELMO: with_elmo}


def timed(arguments: argparse.Namespace, data: Path, files: Files | None, seed: int) -> dict[str, Settings]:
    baseline = read_config("sst", *parts(data), seed=seed, epochs=TIMED_EPOCHS, overrides=arguments.overrides)
    baseline["dataset_reader"]["min_phrase_tokens"] = None
    stock = peer(baseline)
    if files is None:
        return {OURS: baseline, PEER: stock}
    add_elmo(baseline, stock, files)
    return {WITH_ELMO: baseline, f"{PEER} with ELMo": stock}


def some_trees(data: Path, folder: Path, *, train: int | None, dev: int | None) -> Path:
    """Copies of both files with so many trees, at like distances: the published files are not shuffled."""
    folder.mkdir()
    for file, part, wanted in zip(parts(data), ("train", "dev"), (train, dev), strict=True):
        lines = file.read_text(encoding="utf-8").strip("\n").split("\n")
        number = min(wanted or len(lines), len(lines))
        chosen = (lines[place * len(lines) // number] for place in range(number))
        (folder / f"{part}.txt").write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
    return folder


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--limit", type=int, help="sentences that are trained on, from all of the file; default all"
    )
    parser.add_argument(
        "--sentences", action="store_true", help="train on sentences only, not on phrases inside them"
    )
    add_runs(parser, epochs=5, timed=(1000, 200), what="sentences")
    parser.add_argument("--size", default="original", choices=[*SIZES, "shipped"], help="of the timed biLM")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    quiet()
    print(f"Machine: {machine()}.", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments.activations = str(folder / "activations")
        arguments.used = some_trees(arguments.data, folder / "used", train=arguments.limit, dev=None)
        means = mean_scores(partial(scored, arguments), arguments.seeds)
        print_gain(means, OURS, WITH_ELMO)
        if arguments.rounds:
            train, dev = arguments.timed
            short = some_trees(arguments.data, folder / "short", train=train, dev=dev)
            for files in (None, weights(folder, arguments.size)):
                epoch_times(partial(timed, arguments, short, files), arguments.rounds)


if __name__ == "__main__":
    main()
