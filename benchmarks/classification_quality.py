"""
Sentence classification: ELMo pre-trained on the training text itself, in all its mixes, beside no ELMo,
Word2Vec and an SVD of the same text, and the ELMo that comes with the project.

    python benchmarks/classification_quality.py DATA_FOLDER OUT [--sets ag_news sst2 mrpc klue]
        [--seeds 13 14 15] [--limit 500] [--epochs 3] [--pretrain-epochs 5] [--jobs 1]
        [--overrides JSON]

The folder holds `ag_news/`, `sst2/`, `mrpc/` and `klue/`. MRPC and KLUE-NLI come in one file: every fifth
record is for validation. One biLM is trained for each set (seed 13), and its classifier from each seed. OUT
keeps everything: the same command goes on after a kill. `--limit` takes only the first records of each file;
`--epochs` and `--pretrain-epochs` replace those of the configs, `--overrides` is for those of the
classifiers. At the end a table for each set: accuracy on the validation data at the best epoch, mean and
standard deviation over the seeds.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.common import Params
from elmo_speed import machine
from side_by_side import argument_parser, quiet

import elmo_tasks.classification  # noqa: F401 (registers its parts)
from elmo_tasks.commands.compare import MIXES, NO_ELMO, train_vectors, with_vectors
from elmo_tasks.commands.experiment_arguments import train_and_tell
from elmo_tasks.commands.export import read_trained, write_bilm
from elmo_tasks.commands.vectors import METHODS
from elmo_tasks.elmo.sources import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.paths import bundled
from elmo_tasks.training.experiments import plan, summary

Overrides = dict[str, Any]

SHIPPED = {
    "model.elmo.options_file": DEFAULT_OPTIONS,
    "model.elmo.weight_file": DEFAULT_WEIGHTS,
    "model.elmo.vocabulary_file": None,
    "dataset_reader.token_indexers.elmo": {"type": "elmo_character_ids"},
}
NLI = ("entailment", "neutral", "contradiction")


class DataSet(NamedTuple):
    """What is trained on, and by which configs: `CONFIG_bilm` and `CONFIG_elmo`."""

    config: str
    train: Path
    dev: Path
    reader: Overrides
    """Keys of the reader that the config does not have so."""


def ag_news(data: Path, folder: Path) -> DataSet:
    return DataSet("agnews", data / "ag_news" / "train.csv", data / "ag_news" / "dev.csv", {})


def sst2(data: Path, folder: Path) -> DataSet:
    return DataSet("sst2", data / "sst2" / "train.tsv", data / "sst2" / "dev.tsv", {})


def mrpc(data: Path, folder: Path) -> DataSet:
    header, *pairs = next((data / "mrpc").iterdir()).read_text(encoding="utf-8-sig").splitlines()
    files = folder / "mrpc_train.tsv", folder / "mrpc_dev.tsv"
    for path, part in zip(files, split(pairs), strict=True):
        path.write_text("".join(f"{line}\n" for line in [header, *part]), encoding="utf-8")
    return DataSet("mrpc", files[0], files[1], {})


def klue(data: Path, folder: Path) -> DataSet:
    """Pairs, by the config of KLUE-TC."""
    pairs = json.loads(next((data / "klue").iterdir()).read_text(encoding="utf-8"))
    files = folder / "klue_train.json", folder / "klue_dev.json"
    for path, part in zip(files, split(pairs), strict=True):
        path.write_text(json.dumps(part, ensure_ascii=False), encoding="utf-8")
    columns = {"sentence1": "premise", "sentence2": "hypothesis", "label": "gold_label", "classes": list(NLI)}
    return DataSet("klue_tc", files[0], files[1], columns)


SETS = {function.__name__: function for function in (ag_news, sst2, mrpc, klue)}


def split(records: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """All but every fifth, and these."""
    return [record for place, record in enumerate(records) if place % 5], list(records[::5])


def settings(config: str, overrides: Overrides) -> dict[str, Any]:
    path = str(bundled(f"training_configs/{config}.jsonnet"))
    return Params.from_file(path, json.dumps(overrides)).as_dict(quiet=True)


def paths(of: DataSet) -> Overrides:
    return {"train_data_path": str(of.train), "validation_data_path": str(of.dev)}


def reader_of(of: DataSet, prefix: str, limit: int | None) -> Overrides:
    return {f"{prefix}.{key}": value for key, value in {**of.reader, "max_instances": limit}.items()}


def pretrained(of: DataSet, folder: Path, arguments: argparse.Namespace) -> Overrides:
    """Trains the biLM, unless it is there; the overrides that plug it."""
    readers = ("dataset_reader.source", "validation_dataset_reader.source")
    overrides = paths(of) | {
        key: value for name in readers for key, value in reader_of(of, name, arguments.limit).items()
    }
    if arguments.pretrain_epochs is not None:
        overrides["trainer.num_epochs"] = arguments.pretrain_epochs
    config = settings(f"{of.config}_bilm", overrides)
    (run,) = plan(config, {"bilm": {}}, seeds=[13], folder=folder)
    train_and_tell([run], jobs=1, packages=[])
    files = folder / "elmo"
    files.mkdir(exist_ok=True)
    trained = read_trained(str(run.folder / "model.tar.gz"))
    write_bilm(files, trained.bilm, None, trained.words, dtype="float32")
    plugged: Overrides = {
        "model.elmo.options_file": str(files / "options.json"),
        "model.elmo.weight_file": str(files / "weights.hdf5"),
    }
    if (files / "vocab.txt").exists():
        plugged["model.elmo.vocabulary_file"] = str(files / "vocab.txt")
    return plugged


def compare(name: str, arguments: argparse.Namespace) -> None:
    folder: Path = arguments.output / name
    folder.mkdir(parents=True, exist_ok=True)
    of = SETS[name](arguments.data, folder)
    overrides = {
        **arguments.overrides,
        **paths(of),
        **reader_of(of, "dataset_reader", arguments.limit),
        **pretrained(of, folder, arguments),
        "model.elmo.activations": str(folder / "activations"),
        "model.pairs": name in ("mrpc", "klue"),
    }
    if arguments.epochs is not None:
        overrides["trainer.num_epochs"] = arguments.epochs
    config = settings(f"{of.config}_elmo", overrides)
    variants: dict[str, Overrides] = {**MIXES, "shipped": SHIPPED, "no-elmo": NO_ELMO}
    for method in METHODS:
        variants[method] = NO_ELMO | with_vectors(train_vectors(config, method, folder, folder))
    runs = plan(config, variants, seeds=arguments.seeds, folder=folder)
    train_and_tell(runs, jobs=arguments.jobs, packages=[])
    print(f"\n{name}:\n\n{summary(runs).markdown()}", flush=True)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--pretrain-epochs", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    quiet()
    os.environ["ALLENNLP_LOG_LEVEL"] = "WARNING"
    print(f"Machine: {machine()}.", flush=True)
    for name in arguments.sets:
        compare(name, arguments)


if __name__ == "__main__":
    main()
