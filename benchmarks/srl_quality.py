"""
Semantic roles on a folder that holds `train.*` and `dev.*` in the columns of CoNLL 2012, beside
allennlp-models' `srl` of the same sizes, optimizer, batch size and vocabulary.

    python benchmarks/srl_quality.py DATA_FOLDER [--limit 1500] [--dev 500] [--layers 4] [--epochs 10]
        [--seeds 13 14 15] [--rounds 3] [--overrides JSON]

First dev F1 of ours, of the peer, and of ours with the ELMo that comes with the project: that of the best
epoch, without the predicates, as both report it, on the first sentences with predicates of both files.
Nothing is scored where no seed follows `--seeds`. The peer marks every word of a predicate at its input, its
C-V included, ours only the one that stands for it.

Then the time of an epoch of both without ELMo: training and validation from the second epoch on, of `--timed`
sentences of the two files. Nothing is timed with `--rounds 0`.
"""

import argparse
import copy
import tempfile
from functools import partial
from pathlib import Path

import allennlp_models.structured_prediction  # noqa: F401 (registers the peer)
from elmo_speed import machine
from side_by_side import (
    Settings,
    add_runs,
    argument_parser,
    epoch_times,
    mean_scores,
    parts,
    print_gain,
    quiet,
    read_config,
)

import elmo_tasks.srl  # noqa: F401 (registers ours)
from elmo_tasks.srl.reader import SrlReader

OPTIMIZERS = {"adadelta": {"type": "adadelta", "rho": 0.95}, "adam": {"type": "adam", "lr": 0.001}}
"""The config's, and one that gets further in a few epochs of little data."""
TIMED_EPOCHS = 3
OURS, PEER, WITH_ELMO = "elmo_srl", "srl", "elmo_srl with ELMo"
_DOCUMENT, _POS = "#", 4


def first_sentences(data: Path, folder: Path, train: int, dev: int) -> Path:
    """
    Copies of both files that hold their first sentences with predicates only, each file in a folder of its
    own as the peer wants it, without parts of speech: then the peer builds no trees, which stop it at some
    brackets.
    """
    for file, part, number in zip(parts(data), ("train", "dev"), (train, dev), strict=True):
        sentences = []
        for block in file.read_text(encoding="utf-8").split("\n\n"):
            rows = [line.split() for line in block.splitlines() if not line.startswith(_DOCUMENT)]
            if rows and any("(V*" in cell for row in rows for cell in row):
                sentences.append(
                    "".join("\t".join([*row[:_POS], "XX", *row[_POS + 1 :]]) + "\n" for row in rows)
                )
            if len(sentences) == number:
                break
        (folder / part).mkdir(parents=True)
        (folder / part / f"{part}.gold_conll").write_text("\n".join(sentences), encoding="utf-8")
    return folder


def ours(arguments: argparse.Namespace, data: Path, epochs: int, config: str, seed: int) -> Settings:
    settings = read_config(
        config, data / "train", data / "dev", seed=seed, epochs=epochs, overrides=arguments.overrides
    )
    if arguments.layers:
        settings["model"]["num_layers"] = arguments.layers
    if arguments.optimizer:
        settings["trainer"]["optimizer"] = OPTIMIZERS[arguments.optimizer]
    return settings


def peer(baseline: Settings) -> Settings:
    """The same of stock parts."""
    settings = copy.deepcopy(baseline)
    model = settings["model"]
    embedder = model["text_field_embedder"]
    settings["dataset_reader"]["type"] = "srl"
    settings["model"] = {
        "type": "srl",
        "text_field_embedder": embedder,
        "binary_feature_dim": model["predicate_dim"],
        "encoder": {
            "type": "alternating_lstm",
            "input_size": embedder["token_embedders"]["tokens"]["embedding_dim"] + model["predicate_dim"],
            "hidden_size": model["hidden_size"],
            "num_layers": model["num_layers"],
            "recurrent_dropout_probability": model["dropout"],
            "use_input_projection_bias": False,
        },
    }
    # It stops at a tag that the training data does not have.
    instances = SrlReader().read(settings["validation_data_path"])
    tags = {tag for instance in instances for tag in instance["tags"]}
    settings["vocabulary"]["tokens_to_add"] = {"labels": sorted(tags)}
    for loader in ("data_loader", "validation_data_loader"):
        batches = settings[loader]["batch_sampler"]
        del batches["group"]
        batches |= {"type": "bucket", "sorting_keys": ["tokens"]}
    settings["trainer"] |= {"validation_metric": "+f1-measure-overall", "checkpointer": {}}
    return settings


def beside_peer(arguments: argparse.Namespace, data: Path, epochs: int, seed: int) -> dict[str, Settings]:
    baseline = ours(arguments, data, epochs, "srl", seed)
    return {OURS: baseline, PEER: peer(baseline)}


def scored(arguments: argparse.Namespace, data: Path, activations: str, seed: int) -> dict[str, Settings]:
    with_elmo = ours(arguments, data, arguments.epochs, "srl_elmo", seed)
    with_elmo["model"]["elmo"]["activations"] = activations
    return beside_peer(arguments, data, arguments.epochs, seed) | {WITH_ELMO: with_elmo}


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--limit", type=int, default=1500, help="sentences of the training file")
    parser.add_argument("--dev", type=int, default=500, help="sentences of the dev file")
    parser.add_argument("--layers", type=int, help="of the LSTM, in all systems; default the config's")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, help="default the config's, Adadelta")
    add_runs(parser, epochs=10, timed=(200, 50), what="sentences")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    quiet()
    print(f"Machine: {machine()}.", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = first_sentences(arguments.data, folder / "data", arguments.limit, arguments.dev)
        means = mean_scores(partial(scored, arguments, data, str(folder / "activations")), arguments.seeds)
        print_gain(means, OURS, WITH_ELMO)
        if arguments.rounds:
            short = first_sentences(arguments.data, folder / "timed", *arguments.timed)
            epoch_times(partial(beside_peer, arguments, short, TIMED_EPOCHS), arguments.rounds)


if __name__ == "__main__":
    main()
