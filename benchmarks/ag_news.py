"""
AG News in two stages: a biLM of two LSTM layers whose word vectors start from Word2Vec on the same text
(`agnews_words_bilm.jsonnet`), and the classifier with it (`agnews_words_elmo.jsonnet`). One thing is changed
at a time: layers, size, dropout and rate of either, how ELMo's layers are mixed, and what words begin as.

DATA holds `ag_news/train.csv` and `ag_news/dev.csv`; `--train` and `--dev` name other files, as the whole
train.csv of the distribution. Each biLM is trained once (seed 13), each classifier from each seed; the best
epoch on the validation data counts. OUT/results.csv has all results, OUT/table.csv their means, and
OUT/confusion-bilm.csv the most frequent words and OUT/confusion-classifier.csv the topics that are taken for
each other, both as configured, the latter of the first seed. `--overrides` is for all classifiers.
"""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.bilms import Overrides, trained_bilm
from benchmarks.classification import ag_news, paths
from benchmarks.comparison import add_experiment_arguments, best_metrics, epoch_times
from benchmarks.configs import add_json_argument, read_config
from benchmarks.results import Results, show
from elmo_tasks.archives import open_archive
from elmo_tasks.commands.archives import confusion_table
from elmo_tasks.commands.base import positive
from elmo_tasks.commands.experiments import WITHOUT_ELMO, text_vectors, train_and_report
from elmo_tasks.commands.partial_outputs import partial_folder
from elmo_tasks.training.experiments import TrainingRun, plan

AS_CONFIGURED = "as configured"
SEED = 13
"""The seed of the biLMs."""
_SIZES = ("model.options.lstm.dim", "model.options.lstm.projection_dim")
BILMS: dict[str, Overrides] = {
    AS_CONFIGURED: {},
    "biLM: random words": {"model.input_vectors": None},
    "biLM: 1 layer": {"model.options.lstm.n_layers": 1},
    "biLM: 3 layers": {"model.options.lstm.n_layers": 3},
    "biLM: size 64": dict.fromkeys(_SIZES, 64),
    "biLM: size 256": dict.fromkeys(_SIZES, 256),
    "biLM: dropout .1": {"model.dropout": 0.1},
    "biLM: dropout .5": {"model.dropout": 0.5},
    "biLM: rate .001": {"trainer.optimizer.lr": 0.001},
    "biLM: rate .004": {"trainer.optimizer.lr": 0.004},
}
CLASSIFIERS: dict[str, Overrides] = {
    "no ELMo": WITHOUT_ELMO,
    "mix: frozen": {"model.elmo.weights": "frozen"},
    "mix: function": {"model.elmo.weights": "function"},
    "classifier: no layer": {"model.hidden_sizes": []},
    "classifier: 2 layers": {"model.hidden_sizes": [128, 128]},
    "classifier: size 64": {"model.hidden_sizes": [64]},
    "classifier: size 256": {"model.hidden_sizes": [256]},
    "classifier: dropout .2": {"model.dropout": 0.2},
    "classifier: dropout .7": {"model.dropout": 0.7},
    "classifier: rate .0005": {"trainer.optimizer.lr": 0.0005},
    "classifier: rate .002": {"trainer.optimizer.lr": 0.002},
}


def pretrained(name: str, arguments: argparse.Namespace, results: Results) -> Overrides:
    """Trains a biLM of `BILMS`, unless that is done; what plugs it."""
    folder: Path = arguments.output / "bilm" / name
    overrides: dict[str, Any] = {
        **_paths(arguments),
        "dataset_reader.source.max_instances": arguments.limit,
        "validation_dataset_reader.source.max_instances": arguments.limit,
        **arguments.pretrain_overrides,
        **BILMS[name],
    }
    if arguments.pretrain_epochs is not None:
        overrides["trainer.num_epochs"] = arguments.pretrain_epochs
    config = read_config("agnews_words_bilm", overrides)
    if config["model"]["input_vectors"] is not None:
        config["model"]["input_vectors"] = _vectors(config, arguments.output)
    (run,) = plan(config, {name: {}}, seeds=[SEED], folder=arguments.output / "bilm")
    plugged = trained_bilm(run, folder / "elmo")
    _record(run, results, "biLM ")
    if name == AS_CONFIGURED:
        words = open_archive(str(run.folder / "model.tar.gz")).model.metric.labels
        _write_confusion(run, words, arguments.output / "confusion-bilm.csv")
    return plugged


def _vectors(config: dict[str, Any], output: Path) -> str:
    """The file of Word2Vec's vectors of the training text, of the biLM's size."""
    dim = config["model"]["options"]["lstm"]["projection_dim"]
    folder = output / f"vectors-{dim}"
    folder.mkdir(exist_ok=True)
    text = {
        "dataset_reader": config["dataset_reader"]["source"],
        "train_data_path": config["train_data_path"],
    }
    with partial_folder(folder / "text") as work:
        return text_vectors(text, "word2vec", folder, work, dim=dim, lowercase=False)


def _record(run: TrainingRun, results: Results, prefix: str = "") -> None:
    """Returns all metrics of the best epoch except the per-class ones."""
    for name, value in best_metrics(run).items():
        if "-" not in name and isinstance(value, float):
            results.add(run.variant, run.seed, prefix + name, value, sum(epoch_times(run)))


def _write_confusion(run: TrainingRun, labels: list[str], path: Path) -> None:
    path.write_text(confusion_table(labels, best_metrics(run)).csv(), encoding="utf-8")


def _paths(arguments: argparse.Namespace) -> Overrides:
    usual = ag_news(arguments.data, arguments.output)
    return paths(usual._replace(train=arguments.train or usual.train, dev=arguments.dev or usual.dev))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_experiment_arguments(parser)
    parser.add_argument("--train", metavar="CSV", help="in place of ag_news/train.csv")
    parser.add_argument("--dev", metavar="CSV", help="in place of ag_news/dev.csv")
    names = [*BILMS, *CLASSIFIERS]
    parser.add_argument("--variants", nargs="+", choices=names, default=names, metavar="VARIANT")
    parser.add_argument("--limit", type=positive, help="records of each file, the first ones; default all")
    parser.add_argument("--epochs", type=positive, help="of the classifiers")
    parser.add_argument("--pretrain-epochs", type=positive)
    add_json_argument(parser, "--pretrain-overrides", "of the biLMs")


def run(arguments: argparse.Namespace) -> None:
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = Results("AG News", arguments.output / "results.csv", keep=True)
    chosen = dict.fromkeys([AS_CONFIGURED, *arguments.variants])
    bilms = {name: pretrained(name, arguments, results) for name in BILMS if name in chosen}
    overrides = {
        **_paths(arguments),
        "dataset_reader.max_instances": arguments.limit,
        "model.elmo.activations": str(arguments.output / "activations"),
        **bilms[AS_CONFIGURED],
        **arguments.overrides,
    }
    if arguments.epochs is not None:
        overrides["trainer.num_epochs"] = arguments.epochs
    config = read_config("agnews_words_elmo", overrides)
    classifiers = bilms | {name: changes for name, changes in CLASSIFIERS.items() if name in chosen}
    runs = plan(config, classifiers, seeds=arguments.seeds, folder=arguments.output / "classifier")
    train_and_report(runs, jobs=arguments.jobs, packages=[])
    for one in runs:
        _record(one, results)
    labels = config["dataset_reader"]["classes"]
    _write_confusion(runs[0], labels, arguments.output / "confusion-classifier.csv")
    table = results.grid([name for name in results.metrics() if not name.endswith("loss")])
    (arguments.output / "table.csv").write_text(table.csv(), encoding="utf-8")
    show(table)
