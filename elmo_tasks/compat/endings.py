"""How commands end when something is wrong: one line on stderr, and an exit code other than 0."""

import logging
import multiprocessing
import os
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

from allennlp.common import logging as common_logging
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived
from allennlp.data.data_loaders.multiprocess_data_loader import WorkerError
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from elmo_tasks.common.errors import ElmoError, did_you_mean_path
from elmo_tasks.compat.wrapping import wrap

logger = logging.getLogger(__name__)

EXPECTED = (ConfigurationError, ElmoError, OSError, KeyboardInterrupt, SigTermReceived)
"""What is no fault of the program: the user's input or machine, or a signal."""
_IN_A_TRACEBACK = re.compile(
    r"^ *(?:elmo_tasks\.[\w.]+|allennlp\.common\.checks\.Configuration|FileNotFound|Permission|OS)"
    r"Error: (.*)$",
    re.MULTILINE,
)


def print_error(error: BaseException) -> None:
    """One line; what the user can do is in the notes of the error. The traceback is logged at debug level."""
    logger.debug("the error in full", exc_info=error)
    print(
        "; ".join([_message(error) + _nearest_path(error), *getattr(error, "__notes__", [])]), file=sys.stderr
    )
    if isinstance(error, OSError):
        # If it is stdout that fails, Python would try once more when it ends.
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(error: BaseException) -> int:
    return 130 if isinstance(error, KeyboardInterrupt) else 143 if isinstance(error, SigTermReceived) else 1


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, SigTermReceived):
        return "terminated"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"error: {error.filename}: {error.strerror}"
    return f"error: {error}"


def _nearest_path(error: BaseException | None) -> str:
    """Where the error, or one behind it, is of a file that is not there."""
    while error is not None and not isinstance(error, FileNotFoundError):
        error = error.__cause__
    if error is None:
        return ""
    # `cached_path` has the path in its message alone.
    path = error.filename or re.sub("^file (.*) not found$", r"\1", str(error))
    return did_you_mean_path(path)


def _cause(error: BaseException) -> BaseException:
    """
    What the user can mend behind an error: a package that is not there, or what went wrong in a process of a
    data loader, or of a distributed training, which hands on the text of the traceback alone.
    """
    if isinstance(error, WorkerError | ProcessRaisedException):
        if messages := _IN_A_TRACEBACK.findall(str(error)):
            return ConfigurationError(messages[-1])
    elif isinstance(error, ModuleNotFoundError) and error.name in _included_packages():
        return ConfigurationError(f"--include-package: found no package {error.name}")
    elif isinstance(error, ProcessExitedException) and error.signal_name:
        return ConfigurationError(
            f"process {error.error_index} was ended by {error.signal_name}, as where there is too little "
            "memory; `--recover` goes on from the last checkpoint"
        )
    return error


def _included_packages() -> set[str]:
    """The outermost packages that the command line names."""
    names = (name for option, name in pairwise(sys.argv) if option == "--include-package")
    return {name.partition(".")[0] for name in names}


def _end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    known = _cause(error)
    if isinstance(known, SigTermReceived | KeyboardInterrupt):
        # Python would wait until those of a distributed training have trained to the end.
        for child in multiprocessing.active_children():
            child.terminate()
    if isinstance(known, EXPECTED):
        print_error(known)
    else:
        sys.__excepthook__(kind, error, traceback)
    if isinstance(known, SigTermReceived):
        # Else Python would end with 1, as after an error.
        raise SystemExit(exit_code(known))


def install() -> None:
    """Ends all of AllenNLP's commands so, where this process is one."""
    program = Path(sys.argv[0] if sys.argv else "")
    if "allennlp" in (program.parent.name, program.stem):
        sys.excepthook = _end
        wrap(common_logging, "prepare_global_logging", _keep_expected)


def _keep_expected(prepare: Callable[..., None], *args: Any, **options: Any) -> None:
    """`allennlp train` logs the traceback of whatever stops it; what is expected ends as above."""
    prepare(*args, **options)
    log = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        (_end if isinstance(_cause(error), EXPECTED) else log)(kind, error, traceback)

    sys.excepthook = end
