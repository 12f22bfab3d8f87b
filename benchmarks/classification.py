"""
Sentence classification: ELMo pre-trained on the training text itself, in all its mixes, compared with no
ELMo, Word2Vec and an SVD of the same text, and the ELMo that comes with the project.

The folder holds `ag_news/`, `sst2/`, `mrpc/` and `klue/`. MRPC and KLUE-NLI come in one file: every fifth
record is for validation. One biLM is trained for each set (seed 13), and its classifier from each seed:
accuracy on the validation data at the best epoch. `--epochs` and `--pretrain-epochs` replace the numbers of
the configs, `--overrides` changes the configs of the classifiers.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bilms import Overrides, trained_bilm
from benchmarks.comparison import add_experiment_arguments, add_scores
from benchmarks.configs import read_config
from benchmarks.results import Results, show
from elmo_tasks.commands.experiments import MIXES, WITHOUT_ELMO, train_and_report, train_vectors, with_vectors
from elmo_tasks.commands.vectors import VECTOR_METHODS
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.training.experiments import plan

SHIPPED = {
    "model.elmo.options_file": DEFAULT_OPTIONS,
    "model.elmo.weight_file": DEFAULT_WEIGHTS,
    "model.elmo.vocabulary_file": None,
    "dataset_reader.token_indexers.elmo": {"type": "elmo_character_ids"},
}
NLI = ("entailment", "neutral", "contradiction")


class DataSet(NamedTuple):
    """A data set and its configs, `CONFIG_bilm` and `CONFIG_elmo`."""

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
    """Returns the records without every fifth one, and every fifth one."""
    return [record for i, record in enumerate(records) if i % 5], list(records[::5])


def paths(data_set: DataSet) -> Overrides:
    return {"train_data_path": str(data_set.train), "validation_data_path": str(data_set.dev)}


def reader_of(data_set: DataSet, prefix: str, limit: int | None) -> Overrides:
    return {f"{prefix}.{key}": value for key, value in {**data_set.reader, "max_instances": limit}.items()}


def pretrained(data_set: DataSet, folder: Path, arguments: argparse.Namespace) -> Overrides:
    """Trains the biLM, unless it is there; the overrides that plug it."""
    readers = ("dataset_reader.source", "validation_dataset_reader.source")
    overrides = paths(data_set) | {
        key: value for name in readers for key, value in reader_of(data_set, name, arguments.limit).items()
    }
    if arguments.pretrain_epochs is not None:
        overrides["trainer.num_epochs"] = arguments.pretrain_epochs
    config = read_config(f"{data_set.config}_bilm", overrides)
    (run,) = plan(config, {"bilm": {}}, seeds=[13], folder=folder)
    return trained_bilm(run, folder / "elmo")


def compare(name: str, arguments: argparse.Namespace) -> None:
    folder: Path = arguments.output / name
    folder.mkdir(parents=True, exist_ok=True)
    data_set = SETS[name](arguments.data, folder)
    overrides = {
        **arguments.overrides,
        **paths(data_set),
        **reader_of(data_set, "dataset_reader", arguments.limit),
        **pretrained(data_set, folder, arguments),
        "model.elmo.activations": str(folder / "activations"),
        "model.pairs": name in ("mrpc", "klue"),
    }
    if arguments.epochs is not None:
        overrides["trainer.num_epochs"] = arguments.epochs
    config = read_config(f"{data_set.config}_elmo", overrides)
    variants: dict[str, Overrides] = {**MIXES, "shipped": SHIPPED, "no-elmo": WITHOUT_ELMO}
    for method in VECTOR_METHODS:
        variants[method] = WITHOUT_ELMO | with_vectors(train_vectors(config, method, folder, folder))
    runs = plan(config, variants, seeds=arguments.seeds, folder=folder)
    train_and_report(runs, jobs=arguments.jobs, packages=[])
    results = Results(f"classification {name}", arguments.output / "results.csv", keep=True)
    metric = add_scores(results, runs)
    show(results.means(), results.gains(metric, "no-elmo"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_experiment_arguments(parser)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--limit", type=int, help="records of each file, the first ones; default all")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--pretrain-epochs", type=int)


def run(arguments: argparse.Namespace) -> None:
    for name in arguments.sets:
        compare(name, arguments)
