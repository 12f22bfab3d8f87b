"""
An ensemble of the runs of a system from several seeds, beside its members: the best score of each member on
the validation data, and that of `allennlp elmo ensemble` of all.

RUNS is the folder of a system below that of a task, as OUT/elmo of `python -m benchmarks ner DATA OUT`.
"""

import argparse
from pathlib import Path

from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common.checks import ConfigurationError

from benchmarks.finished_runs import add_scores, finished_run
from benchmarks.results import Results, show
from elmo_tasks.commands.ensemble import Ensemble

MEMBER, ENSEMBLE = "member", "ensemble"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, help="folder of the runs, seed-N")
    parser.add_argument("output", type=Path, help="folder of the archive and the results")


def run(arguments: argparse.Namespace) -> None:
    folders = sorted(path for path in arguments.runs.glob("seed-*") if path.is_dir())
    members = [finished_run(folder)._replace(variant=MEMBER) for folder in folders]
    if len(members) < 2:
        raise ConfigurationError(f"{arguments.runs}: found {len(members)} runs, expected two or more")
    results = Results(ENSEMBLE, arguments.output / "results.csv")
    arguments.output.mkdir(parents=True, exist_ok=True)
    metric = add_scores(results, members)
    archive = arguments.output / "model.tar.gz"
    archives = [member.folder / archive.name for member in members]
    Ensemble().run(argparse.Namespace(archives=archives, output=archive, force=True))
    config = members[0].config
    score = evaluate_from_archive(str(archive), config["validation_data_path"])[metric]
    results.add(ENSEMBLE, 0, metric, 100 * score)
    show(results.means(), results.gains(metric, MEMBER))
