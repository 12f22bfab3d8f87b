"""`allennlp elmo ...`: one file a verb."""

import argparse
import io
import sys
from functools import partial

from allennlp.commands import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.ablate import Ablate
from elmo_tasks.commands.base import Subparsers, Verb, sources_of
from elmo_tasks.commands.calibrate import Calibrate
from elmo_tasks.commands.compare import Compare
from elmo_tasks.commands.confusion import Confusion
from elmo_tasks.commands.doctor import Doctor
from elmo_tasks.commands.embed import Embed
from elmo_tasks.commands.ensemble import Ensemble
from elmo_tasks.commands.explain import Explain
from elmo_tasks.commands.export import Export
from elmo_tasks.commands.intrinsic import Intrinsic
from elmo_tasks.commands.mix import Mix
from elmo_tasks.commands.neighbors import Neighbors
from elmo_tasks.commands.predict import Predict
from elmo_tasks.commands.probe import Probe
from elmo_tasks.commands.report import Report
from elmo_tasks.commands.serve import Serve
from elmo_tasks.commands.squad_predictions import SquadPredictions
from elmo_tasks.commands.vectors import Vectors
from elmo_tasks.common.files import check_sources_stay
from elmo_tasks.compat.endings import EXPECTED, exit_code, print_error

VERBS: tuple[Verb, ...] = (
    Embed(),
    Calibrate(),
    Export(),
    Ensemble(),
    Confusion(),
    Explain(),
    Predict(),
    Serve(),
    Intrinsic(),
    Neighbors(),
    Probe(),
    Mix(),
    Vectors(),
    Compare(),
    Ablate(),
    Report(),
    SquadPredictions(),
    Doctor(),
)


@Subcommand.register("elmo")
class ElmoGroup(Subcommand):
    """
    The group of verbs.

    What is wrong with the user's input or machine (`EXPECTED`) is one line on stderr and
    exit code 1; the traceback is logged at debug level. SIGINT ends with 130, SIGTERM with 143.
    """

    def add_subparser(self, parser: Subparsers) -> argparse.ArgumentParser:
        group = parser.add_parser(
            self.name, description="What ELMo does beside the tasks.", help="ELMo itself."
        )
        verbs = group.add_subparsers(title="Verbs", metavar="VERB", required=True)
        for verb in VERBS:
            subparser = verbs.add_parser(verb.name, description=verb.description, help=verb.help)
            verb.add_arguments(subparser)
            subparser.set_defaults(func=partial(_run, verb))
        return group


def _let_stdout_take_all() -> None:
    """What a console cannot show is written as `\\N{...}`; it is no reason to end with an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="namereplace")


def _run(verb: Verb, arguments: argparse.Namespace) -> None:
    _let_stdout_take_all()
    try:
        check_sources_stay(verb.outputs(arguments), sources_of(arguments), error=ConfigurationError)
        verb.run(arguments)
        sys.stdout.flush()
    except EXPECTED as error:
        print_error(error)
        raise SystemExit(exit_code(error)) from error
