"""
Word biLMs of depth 1 and 2 of the same text (`bilm_words_depth1.jsonnet`, `bilm_words_depth2.jsonnet`): what
their layers encode of single words, and what they bring to SST-2, MRPC and NER, compared with no ELMo.

DATA holds `wordsim/`, `sst2/`, `mrpc/` and `ner/uner_ewt/`. TEXT and VALID have one tokenised sentence a
line, plain or gzip. Each biLM is trained once (seed 42), for `--pretrain-epochs` of `--blocks` blocks of 640
tokens, `--pretrain-overrides` being for both. Each task is trained from each seed; the best epoch on the
validation data counts. OUT/results.csv has all results; OUT/perplexity.csv, OUT/words.csv and OUT/tasks.csv
have their means, and OUT/depth-N/intrinsic.csv also how many questions the vocabulary covers.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.bilms import PERPLEXITIES, Overrides, trained_bilm
from benchmarks.classification import SETS, paths
from benchmarks.comparison import add_experiment_arguments, add_scores, best_metrics, epoch_times
from benchmarks.configs import add_json_argument, read_config
from benchmarks.results import Results, show
from elmo_tasks.commands.arguments import BilmArguments, ContextArguments, VectorArguments
from elmo_tasks.commands.base import positive
from elmo_tasks.commands.experiments import WITHOUT_ELMO, train_and_report
from elmo_tasks.commands.intrinsic import SIMILARITY, Intrinsic
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.common.table import Table
from elmo_tasks.training.experiments import TrainingRun, plan

DEPTHS = (1, 2)
SEED = 42
"""The seed of the biLMs."""
ANALOGIES = ("semantic", "syntactic", "all")
WORDSIM = {
    "wordsim": "EN-WS-353-ALL.txt",
    "simlex": "EN-SIMLEX-999.txt",
    "men": "EN-MEN-TR-3k.txt",
    "rg": "EN-RG-65.txt",
    "analogies": "questions-words.lower.txt",
}
"""The options of `allennlp elmo intrinsic`, and the files in `wordsim/`."""
NER = {
    "train_data_path": "ner/uner_ewt/train*",
    "validation_data_path": "ner/uner_ewt/dev*",
}


class Task(NamedTuple):
    """A task of which `CONFIG_elmo` is the config."""

    config: str
    epochs: int


TASKS = {"sst2": Task("sst2", 6), "mrpc": Task("mrpc", 6), "ner": Task("ner", 15)}


def pretrained(depth: int, arguments: argparse.Namespace, results: Results) -> Overrides:
    """Trains the biLM of a depth, unless that is done; what plugs it."""
    folder: Path = arguments.output / f"depth-{depth}"
    overrides = {
        "train_data_path": arguments.text if len(arguments.text) > 1 else arguments.text[0],
        "validation_data_path": arguments.valid,
        "data_loader.batches_per_epoch": arguments.blocks,
        "trainer.num_epochs": arguments.pretrain_epochs,
        **arguments.pretrain_overrides,
    }
    config = read_config(f"bilm_words_depth{depth}", overrides)
    (run,) = plan(config, {"bilm": {}}, seeds=[SEED], folder=folder)
    plugged = trained_bilm(run, folder / "elmo")
    metrics, seconds = best_metrics(run), sum(epoch_times(run))
    for name in PERPLEXITIES:
        results.add(f"depth {depth}", SEED, name, metrics[name], seconds)
    return plugged


def intrinsic(depth: int, bilm: Overrides, arguments: argparse.Namespace, results: Results) -> None:
    """Similarity and analogies, layer by layer."""
    output: Path = arguments.output / f"depth-{depth}" / "intrinsic.csv"
    files = {key.rpartition(".")[2]: path for key, path in bilm.items()}
    tests = {option: str(arguments.data / "wordsim" / name) for option, name in WORDSIM.items()}
    verb = Intrinsic(
        **tests,
        contexts=ContextArguments(),
        vectors=VectorArguments(bilm=BilmArguments(**files)),
        results=ResultArguments(output=output, force=True),
    )
    verb.run()
    for test, section, measure, vectors, value, _, _ in Table.read(output).rows:
        system = f"depth {depth}, {vectors}"
        if section is None:
            results.add(system, SEED, SIMILARITY[str(test)], float(value or 0))
        elif section in ANALOGIES and measure == "3CosAdd":
            results.add(system, SEED, analogies(str(section)), float(value or 0))


def analogies(section: str) -> str:
    """The name of the metric."""
    return f"analogies, {section}"


def runs_of(name: str, bilms: Mapping[str, Overrides], arguments: argparse.Namespace) -> list[TrainingRun]:
    """Returns the runs of a task: without ELMo, and with each biLM."""
    task, folder = TASKS[name], arguments.output / name
    folder.mkdir(parents=True, exist_ok=True)
    data = SETS[name](arguments.data, folder) if name in SETS else None
    files = paths(data) if data else {key: str(arguments.data / path) for key, path in NER.items()}
    config = read_config(
        f"{task.config}_elmo",
        {
            **files,
            "dataset_reader.max_instances": arguments.limit,
            "dataset_reader.token_indexers.elmo": {"type": "elmo_word_ids"},
            "trainer.num_epochs": arguments.epochs or task.epochs,
            **next(iter(bilms.values())),
            "model.elmo.activations": str(arguments.output / "activations"),
            **arguments.overrides,
        },
    )
    return plan(config, {"no ELMo": WITHOUT_ELMO, **bilms}, seeds=arguments.seeds, folder=folder)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_experiment_arguments(parser)
    parser.add_argument(
        "--text", nargs="+", required=True, metavar="TEXT", help="that the biLMs are trained on"
    )
    parser.add_argument("--valid", required=True, help="text by whose perplexity their best epoch is chosen")
    parser.add_argument("--depths", type=int, nargs="+", choices=DEPTHS, default=DEPTHS)
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--pretrain-epochs", type=positive, default=4)
    parser.add_argument("--blocks", type=positive, default=2000, help="of an epoch of the biLMs")
    add_json_argument(parser, "--pretrain-overrides", "of the biLMs' configs")
    parser.add_argument("--epochs", type=positive, help="of the tasks (default: 6, 6 and 15)")
    parser.add_argument("--limit", type=positive, help="instances of each file of a task; default all")


def run(arguments: argparse.Namespace) -> None:
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = Results("word biLM", arguments.output / "results.csv", keep=True)
    bilms = {}
    for depth in arguments.depths:
        bilms[f"depth {depth}"] = pretrained(depth, arguments, results)
        intrinsic(depth, bilms[f"depth {depth}"], arguments, results)
    scores = []
    for name in arguments.tasks:
        runs = runs_of(name, bilms, arguments)
        train_and_report(runs, jobs=arguments.jobs, packages=[])
        scores.append(add_scores(results, runs, f"{name}: "))
    tests = [*SIMILARITY.values(), *map(analogies, ANALOGIES)]
    names = {"perplexity": PERPLEXITIES, "words": tests, "tasks": scores}
    tables = {name: results.grid(metrics) for name, metrics in names.items()}
    for name, table in tables.items():
        (arguments.output / f"{name}.csv").write_text(table.csv(), encoding="utf-8")
    show(*tables.values())
