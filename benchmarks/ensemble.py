"""
An ensemble of the runs of a system from several seeds, beside its members: the best score of each member on
the validation data, and that of `allennlp elmo ensemble` of all.

RUNS is the folder of a system below that of a task, as OUT/elmo of `python -m benchmarks ner DATA OUT`.
"""

import argparse
import json
from pathlib import Path

from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import CONFIG_NAME

from benchmarks.finished_runs import add_scores
from benchmarks.results import Results, show
from elmo_tasks.commands.ensemble import Ensemble
from elmo_tasks.training.experiments import Run

MEMBER, ENSEMBLE = "member", "ensemble"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, help="folder of the runs, seed-N")
    parser.add_argument("output", type=Path, help="folder of the archive and the results")


def run(arguments: argparse.Namespace) -> None:
    folders = sorted(path for path in arguments.runs.glob("seed-*") if path.is_dir())
    members = [
        Run(
            MEMBER,
            int(folder.name.removeprefix("seed-")),
            json.loads((folder / CONFIG_NAME).read_text()),
            folder,
        )
        for folder in folders
    ]
    done = [member for member in members if member.metrics() is not None]
    if len(done) < 2:
        raise ConfigurationError(
            f"{arguments.runs}: found {len(done)} runs that are done, expected two or more"
        )
    results = Results(ENSEMBLE, arguments.output / "results.csv")
    arguments.output.mkdir(parents=True, exist_ok=True)
    metric = add_scores(results, done)
    archive = arguments.output / "model.tar.gz"
    archives = [member.folder / archive.name for member in done]
    Ensemble().run(argparse.Namespace(archives=archives, output=archive, force=True))
    config = done[0].config
    score = evaluate_from_archive(str(archive), config["validation_data_path"])[metric]
    results.add(ENSEMBLE, 0, metric, 100 * score)
    show(results.means(), results.gains(metric, MEMBER))
