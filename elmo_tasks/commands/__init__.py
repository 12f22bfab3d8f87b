"""`allennlp elmo ...`: one file a verb."""

import argparse
import logging
import sys
from functools import partial
from typing import NoReturn

from allennlp.commands import Subcommand
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands.ablate import Ablate
from elmo_tasks.commands.base import Subparsers, Verb
from elmo_tasks.commands.calibrate import Calibrate
from elmo_tasks.commands.compare import Compare
from elmo_tasks.commands.confusion import Confusion
from elmo_tasks.commands.embed import Embed
from elmo_tasks.commands.ensemble import Ensemble
from elmo_tasks.commands.export import Export
from elmo_tasks.commands.intrinsic import Intrinsic
from elmo_tasks.commands.mix import Mix
from elmo_tasks.commands.neighbors import Neighbors
from elmo_tasks.commands.probe import Probe
from elmo_tasks.commands.report import Report
from elmo_tasks.commands.squad_predictions import SquadPredictions
from elmo_tasks.commands.vectors import Vectors

logger = logging.getLogger(__name__)

VERBS: tuple[Verb, ...] = (
    *(Embed(), Calibrate(), Export(), Ensemble(), Confusion()),
    *(Intrinsic(), Neighbors(), Probe(), Mix()),
    *(Vectors(), Compare(), Ablate(), Report()),
    SquadPredictions(),
)


@Subcommand.register("elmo")
class ElmoGroup(Subcommand):
    """
    The group of verbs.

    What is wrong with the user's input or machine (`ConfigurationError`, `OSError`) is one line on stderr and
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


def _run(verb: Verb, arguments: argparse.Namespace) -> None:
    try:
        verb.run(arguments)
    except (ConfigurationError, OSError) as error:
        logger.debug("the error in full", exc_info=True)
        _stop(f"error: {_message(error)}", error, 1)
    except KeyboardInterrupt as signal:
        _stop("interrupted", signal, 130)
    except SigTermReceived as signal:
        _stop("terminated", signal, 143)


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _stop(message: str, reason: BaseException, code: int) -> NoReturn:
    """Prints one line, and ends; a verb says by `reason.add_note` what the user can do."""
    print("; ".join([message, *getattr(reason, "__notes__", [])]), file=sys.stderr)
    raise SystemExit(code)
