"""
OUT.partial, the folder in which a verb works until OUT is complete; and the runs of `embed` and `predict`,
which can be resumed and may be on Ray.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from allennlp.common.checks import ConfigurationError
from filelock import lock_descriptor

from elmo_tasks.commands.base import Positive, flag, option, refuse_given
from elmo_tasks.common.files import naming_when_full, put_in_place
from elmo_tasks.jobs.engines import LocalEngine, RayEngine
from elmo_tasks.jobs.locations import MARK, Folder
from elmo_tasks.jobs.runs import PLAN, must_run

PARTIAL = ".partial"


def check_output(output: Path, *, force: bool) -> None:
    """Raises `ConfigurationError` if `output` must not, or cannot, be replaced, or is `-`."""
    if str(output) == "-":
        raise ConfigurationError("the output cannot be -; name a file")
    if output.exists() and not output.is_file():
        raise ConfigurationError(f"{output} is not a file")
    if output.exists() and not force:
        raise ConfigurationError(f"{output} exists; use --force to overwrite it")


@contextmanager
def partial_folder(output: Path, *, keep: str | None = None) -> Iterator[Path]:
    """
    Makes the folder `OUT.partial`, for this process alone, and the folders above it.

    It is removed at the end, unless it holds the file `keep`, which a later run needs. Without that file, the
    files of a process that was killed are removed at the start. `MARK` tells such a folder.

    # Raises
    `ConfigurationError`: the folder is not of a command, or another process works in it.
    """
    if not output.name:
        raise ConfigurationError(f"{str(output)!r} is not the name of a file or folder")
    folder = output.with_name(f"{output.name}{PARTIAL}")
    with suppress(FileExistsError):
        folder.mkdir(parents=True)

    def is_needed() -> bool:
        return keep is not None and (folder / keep).exists()

    mark = folder / MARK
    try:
        if stranger := _stranger(folder):
            raise ConfigurationError(
                f"{folder}: found {stranger}, which this command did not write; name another output"
            )
        with naming_when_full(output):
            file = open(mark, "ab")  # noqa: SIM115
    except FileNotFoundError as error:
        raise _in_use(folder) from error
    with naming_when_full(output), file:
        locked = _lock(file.fileno())
        # The process that worked in it before may have removed it just now.
        if locked is False or not mark.exists() or not os.path.samestat(os.fstat(file.fileno()), mark.stat()):
            raise _in_use(folder)
        if locked and not is_needed():
            _remove_files(folder)
        try:
            yield folder
        finally:
            if folder.exists() and not is_needed():
                _remove_files(folder)
                # Another process may have made a mark of its own by now.
                with suppress(OSError):
                    _remove_open(mark, file)
                    folder.rmdir()


def _remove_open(path: Path, file: BinaryIO) -> None:
    """Removes a locked file. On Windows it must be closed first."""
    try:
        path.unlink()
    except PermissionError:
        file.close()
        path.unlink()


def _remove_files(folder: Path) -> None:
    """Removes everything except the mark, which goes last, since the process may be killed."""
    for path in folder.iterdir():
        if path.name != MARK:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _stranger(folder: Path) -> str | None:
    """Returns what is there that no command has made, if anything."""
    if folder.is_symlink():
        return "a link"
    if not folder.is_dir():
        return "a file"
    names = set(os.listdir(folder))
    if MARK in names:
        return MARK if (folder / MARK).is_symlink() else None
    return min(names, default=None)


@contextmanager
def partial_file(output: Path, *, force: bool) -> Iterator[Path]:
    """
    Yields a path in the folder `OUT.partial`. The file that is written there becomes `output` at the end,
    unless an exception leaves the context. For errors see `check_output` and `partial_folder`.
    """
    check_output(output, force=force)
    with partial_folder(output) as folder:
        yield folder / output.name
        publish(folder, output.parent, [output.name])


def publish(folder: Path, target: Path, names: Iterable[str]) -> list[str]:
    """Moves whole files to the folder `target`, one by one; returns the names of those that were there."""
    published = [name for name in names if (folder / name).exists()]
    for name in published:
        put_in_place(folder / name, target / name)
    return published


def _lock(descriptor: int) -> bool | None:
    """Locks a file. Returns whether it could, or `None` if the file system has no locks."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        # Some network file systems have no locks.
        if error.errno not in (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        return None


def _in_use(folder: Path) -> ConfigurationError:
    return ConfigurationError(f"{folder} is in use by another process")


ENGINES = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """How a run begins, and where."""

    resume: bool = flag("continue a run that was stopped: the same IN and options", exclusive="again")
    force: bool = flag("overwrite OUT, discard a run that was stopped", exclusive="again")
    engine: str = option("local: this process; ray: workers", "local", choices=ENGINES)


@dataclass(frozen=True, kw_only=True)
class RayArguments:
    """The workers on Ray."""

    workers: Positive | None = option("processes of one thread each (default: one a processor)", metavar="N")
    ray_address: str | None = option("address of a cluster (default: a Ray for this run alone)", metavar="A")
    shard_bytes: Positive | None = option(
        "bytes of IN that a worker reads at a time (default: 16 KiB to 1 MiB, more for a larger IN)",
        metavar="N",
    )


def engine_of(run: RunArguments, ray: RayArguments, output: str) -> LocalEngine | RayEngine:
    """Returns the engine that the arguments name. Arguments and outputs of Ray without it are an error."""
    if run.engine == "local":
        refuse_given(ray, "belongs to --engine ray")
        if "://" in output:
            raise ConfigurationError(f"{output} needs --engine ray; name a file for OUT")
        return LocalEngine()
    if missing := [package for package in ("ray", "pyarrow") if find_spec(package) is None]:
        raise ConfigurationError(
            f"--engine ray needs {' and '.join(missing)}; install it: make install EXTRAS='ray'"
        )
    return RayEngine(ray.workers, ray.ray_address)


@contextmanager
def run_folder(output: str, arguments: RunArguments) -> Iterator[Folder | None]:
    """
    Yields the folder OUT.partial, or `None` if there is nothing to do. On a disk it is for this process
    alone, and stays only if a later run can resume the run in it.

    # Raises
    `ConfigurationError`: no file can be written to OUT; and see `partial_folder` and `must_run`.
    """
    remote = "://" in output
    context = nullcontext(f"{output}.partial") if remote else partial_folder(Path(output), keep=PLAN)
    with context as path:
        if not remote:
            check_output(Path(output), force=True)
        folder = Folder(str(path))
        if not must_run(folder, output, resume=arguments.resume, force=arguments.force):
            print(f"{output} is complete; use --force to overwrite it")
            yield None
            return
        yield folder
        if remote:
            folder.remove_itself()
