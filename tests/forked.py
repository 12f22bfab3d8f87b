"""Commands in processes that are forked from one that has imported everything."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch

import allennlp.commands
import torch

from elmo_tasks import suite
from elmo_tasks.commands import embed
from elmo_tasks.compat import command
from elmo_tasks.training import experiments
from tests.conftest import command_process  # and packs archives loosely

FORKED = multiprocessing.get_context("forkserver")
# Imports of a process's first optimizer, plot, file, SVD and tokenizer, up to a second each
FIRST_USED = ["torch._dynamo", "matplotlib.pyplot", "cached_path.schemes.s3", "scipy.sparse.linalg", "spacy"]
FORKED.set_forkserver_preload([__name__, *FIRST_USED, "tests.before_forks"])
# That process imports these tests, whatever folder it starts in.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)
# Otherwise `compare` or `ablate`, which may start that process first, would preload less.
FORKED.set_forkserver_preload = lambda names: None  # type: ignore[method-assign]

LONGEST = 600.0
"""Limit of seconds for a command, five times what the slowest takes."""


def exit_code() -> int:
    """Runs the command in `sys.argv` in this process, which has all of AllenNLP in memory."""
    try:
        with command_process():
            allennlp.commands.main(prog="allennlp")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def spawn(worker: Callable[..., None], *, args: tuple[object, ...], nprocs: int) -> None:
    """Replaces `torch.multiprocessing.spawn`."""
    torch.multiprocessing.start_processes(worker, args, nprocs, start_method="forkserver")


def warm_up() -> None:
    """Starts the process that forks the others; otherwise the first command waits for all imports."""
    process = FORKED.Process(target=os.getpid)
    process.start()
    process.join()


class Command:
    """
    Runs `allennlp ARGUMENTS` in a process with the present environment.

    # Parameters

    log : file for its output.
    prepare : is called in the process first.
    """

    def __init__(
        self, arguments: Sequence[object], log: Path, prepare: Callable[[], object] | None = None
    ) -> None:
        self.log = log
        self._process: ForkServerProcess = FORKED.Process(
            target=_run, args=(list(map(str, arguments)), log, prepare, dict(os.environ))
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def finish(self) -> int | None:
        """Returns its exit code; kills it if it hangs."""
        self._process.join(LONGEST)
        if self._process.exitcode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.join()
        return self._process.exitcode

    def succeed(self) -> None:
        """Waits until it ends without an error."""
        assert self.finish() == 0, self.log.read_text()


def _show_in(log: Path) -> None:
    shown = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(shown, stream)


def _run(
    arguments: list[str], log: Path, prepare: Callable[[], object] | None, environment: dict[str, str]
) -> None:
    os.setsid()
    os.environ.update(environment)
    _show_in(log)
    torch.set_num_threads(1)
    fork = partial(torch.multiprocessing.start_processes, start_method="fork")
    for owner, name, value in (
        # Its own processes have imported everything, too.
        (experiments, "_PROCESSES", multiprocessing.get_context("fork")),
        (torch.multiprocessing, "spawn", fork),
        (allennlp.commands, "import_plugins", lambda: None),
        (embed, "SHARD_BYTES", 100),
    ):
        patch.object(owner, name, value).start()
    if prepare is not None:
        prepare()
    sys.argv = ["allennlp", *arguments]
    suite.start_command()
    try:
        allennlp.commands.main(prog="allennlp")
    except command.USER_ERRORS as error:  # what the command does by a hook for which this process has no use
        command.print_error(error)
        sys.exit(command.exit_code(error))
