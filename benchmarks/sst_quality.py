"""
SST-5 on a folder that holds the trees `train.*` and `dev.*`, in one of two comparisons:

    python benchmarks/sst_quality.py DATA_FOLDER [--limit 2000] [--sentences] [--seeds 13 14 15] [--epochs 5]
    python benchmarks/sst_quality.py DATA_FOLDER --elmo [--size original]

- Without ELMo, beside allennlp-models' `bcn` of the same sizes, dropout, optimizer, batch size, phrases and
  vocabulary: dev accuracy, and the time of an epoch.
- `--elmo`: the time of an epoch with the same frozen biLM at the input of both systems, AllenNLP's own `Elmo`
  there, no activations kept here; then dev accuracy of ours with the ELMo that comes with the project, and
  without.

Accuracy is that of the best epoch, on all sentences of `dev.*`. The time of an epoch is that of training and
validation from the second epoch on, with some sentences of both files, and no phrases inside them.
"""

import argparse
import copy
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import allennlp_models.classification  # noqa: F401 (registers the peer)
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance
from elmo_speed import SIZES, Files, machine, random_weights, shipped_weights
from side_by_side import Settings, epoch_times, mean_scores, quiet

from elmo_tasks.elmo import BiLmOptions
from elmo_tasks.paths import bundled
from elmo_tasks.sst import SstReader

CLASSES = 5
TIMED_EPOCHS = 3


@DatasetReader.register("sst_for_peer")
class ReaderForPeer(SstReader):
    """The same words, phrases and vocabulary; the peer's `forward` takes no metadata."""

    def _instance(self, *args: Any, **kwargs: Any) -> Instance:
        instance = super()._instance(*args, **kwargs)
        del instance.fields["metadata"]
        return instance


def ours(config: str, data: Path, seed: int, epochs: int, *, sentences_only: bool) -> Settings:
    """A config for the files of a folder; all epochs are trained, and the best one is scored."""
    settings = Params.from_file(str(bundled(f"training_configs/{config}.jsonnet"))).as_dict(quiet=True)
    settings |= dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed)
    settings["train_data_path"] = str(next(data.glob("train.*")))
    settings["validation_data_path"] = str(next(data.glob("dev.*")))
    if sentences_only:
        settings["dataset_reader"]["min_phrase_tokens"] = None
    settings["trainer"] |= {"num_epochs": epochs, "patience": None}
    settings["trainer"]["callbacks"] = [{"type": "epoch_times"}]
    return settings


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
    for settings, indexer in ((ours, "elmo_character_ids"), (peer, "elmo_characters")):
        for reader in ("dataset_reader", "validation_dataset_reader"):
            settings[reader]["token_indexers"]["elmo"] = {"type": indexer}


def scored(arguments: argparse.Namespace, config: str, seed: int) -> Settings:
    return ours(config, arguments.used, seed, arguments.epochs, sentences_only=arguments.sentences)


def beside_peer(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    baseline = scored(arguments, "sst", seed)
    return {"elmo_sst": baseline, "bcn": peer(baseline)}


def gain(arguments: argparse.Namespace, seed: int) -> dict[str, Settings]:
    with_elmo = scored(arguments, "sst_elmo", seed)
    with_elmo["model"]["elmo"]["activations"] = arguments.activations
    return {"without ELMo": scored(arguments, "sst", seed), "with ELMo": with_elmo}


def timed(data: Path, files: Files | None, seed: int) -> dict[str, Settings]:
    baseline = ours("sst", data, seed, TIMED_EPOCHS, sentences_only=True)
    stock = peer(baseline)
    if files is not None:
        add_elmo(baseline, stock, files)
    return {"elmo_sst": baseline, "bcn": stock}


def some_trees(data: Path, folder: Path, *, train: int | None, dev: int | None) -> Path:
    """Copies of both files with so many trees, at like distances: the published files are not shuffled."""
    folder.mkdir()
    for part, wanted in (("train", train), ("dev", dev)):
        lines = next(data.glob(f"{part}.*")).read_text(encoding="utf-8").strip("\n").split("\n")
        number = min(wanted or len(lines), len(lines))
        chosen = (lines[place * len(lines) // number] for place in range(number))
        (folder / f"{part}.txt").write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
    return folder


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--limit", type=int, help="sentences that are trained on, from all of the file; default all"
    )
    parser.add_argument(
        "--sentences", action="store_true", help="train on sentences only, not on phrases inside them"
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=[13, 14, 15])
    parser.add_argument("--epochs", type=int, default=5, help="at least 2")
    parser.add_argument("--rounds", type=int, default=3, help="short runs for the time of an epoch")
    parser.add_argument(
        "--timed", type=int, nargs=2, default=(1000, 200), help="sentences of their two files"
    )
    parser.add_argument("--size", default="original", choices=[*SIZES, "shipped"], help="of the timed biLM")
    parser.add_argument("--elmo", action="store_true")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    quiet()
    print(f"Machine: {machine()}.", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments.activations = str(folder / "activations")
        arguments.used = some_trees(arguments.data, folder / "used", train=arguments.limit, dev=None)
        train, dev = arguments.timed
        short = some_trees(arguments.data, folder / "short", train=train, dev=dev)
        if arguments.elmo:
            shipped = arguments.size == "shipped"
            files = shipped_weights() if shipped else random_weights(folder, arguments.size)
            epoch_times(partial(timed, short, files), arguments.rounds)
            scores = mean_scores(partial(gain, arguments), arguments.seeds)
            if scores:
                without, with_elmo = scores.values()
                print(f"relative error reduction {(with_elmo - without) / (100 - without):.1%}")
        else:
            mean_scores(partial(beside_peer, arguments), arguments.seeds)
            epoch_times(partial(timed, short, None), arguments.rounds)


if __name__ == "__main__":
    main()
