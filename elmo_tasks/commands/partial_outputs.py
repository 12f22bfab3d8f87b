"""
OUT.partial, the folder in which a verb works until OUT is complete; and the runs of `embed` and `predict`,
which can be resumed and may be on Ray.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Literal

from allennlp.common.checks import ConfigurationError
from filelock import lock_descriptor

from elmo_tasks.commands.base import ArgumentGroup, Positive, flag, option, refuse_given
from elmo_tasks.common.files import full_disk_errors, put_in_place
from elmo_tasks.jobs.engines import LocalEngine, RayEngine
from elmo_tasks.jobs.locations import MARK, WORK, Folder
from elmo_tasks.jobs.runs import prepare_folder, remove_run

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
def partial_folder(output: Path, *, with_run: bool = False) -> Iterator[Path]:
    """
    Makes the empty folder `OUT.partial/_work`, for this process alone, and the folders above it.

    It is removed at the end, and so is `OUT.partial`, unless it has other files: with `with_run`, the files
    of a run that can be resumed. The file `MARK` shows that a command made the folder. A `_work` that a
    killed process left is removed at the start; all other files stay.

    # Raises
    `ConfigurationError`: there are other files, or another process works in the folder.
    """
    if not output.name:
        raise ConfigurationError(f"{str(output)!r} is not the name of a file or folder")
    folder = output.with_name(f"{output.name}{PARTIAL}")
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
    mark, work = folder / MARK, folder / WORK
    try:
        if stranger := _stranger(folder, with_run=with_run):
            raise ConfigurationError(
                f"{folder}: found {stranger}, which this command did not write; name another output"
            )
        with full_disk_errors(output):
            file = open(  # noqa: SIM115
                mark,
                "ab",
                opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666),
            )
    except FileNotFoundError as error:
        raise _in_use(folder) from error
    with full_disk_errors(output), file:
        locked = _lock(file.fileno())
        # The process that worked in it before may have removed it just now.
        if locked is False or not mark.exists() or not os.path.samestat(os.fstat(file.fileno()), mark.stat()):
            raise _in_use(folder)
        if locked:
            _remove_folder(work)
        work.mkdir(exist_ok=not locked)
        try:
            yield work
        finally:
            _remove_folder(work)
            if os.listdir(folder) == [MARK]:
                # Another process may have made a mark of its own by now.
                with suppress(OSError):
                    _remove_open(mark, file)
                    folder.rmdir()


def _remove_folder(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink() if path.is_symlink() else shutil.rmtree(path)


def _remove_open(path: Path, file: BinaryIO) -> None:
    """Removes a locked file. On Windows it must be closed first."""
    try:
        path.unlink()
    except PermissionError:
        file.close()
        path.unlink()


def _stranger(folder: Path, *, with_run: bool) -> str | None:
    """Returns what is there that no command has made, if anything. The files of a run are not looked at."""
    if folder.is_symlink():
        return "a link"
    if not folder.is_dir():
        return "a file"
    names = set(os.listdir(folder))
    if MARK not in names:
        return min(names, default=None)
    if not stat.S_ISREG(os.lstat(folder / MARK).st_mode):
        return MARK
    return None if with_run else min(names - {MARK, WORK}, default=None)


@contextmanager
def partial_file(output: Path, *, force: bool) -> Iterator[Path]:
    """
    Yields a path in a folder of `OUT.partial`. The file that is written there becomes `output` at the end,
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


class RunArguments(ArgumentGroup):
    resume: bool = flag("continue a run that was stopped: the same IN and options", exclusive="again")
    force: bool = flag("overwrite OUT, discard a run that was stopped", exclusive="again")
    engine: Literal["local", "ray"] = option("local: this machine; ray: workers", "local")


class RayArguments(ArgumentGroup):
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
    alone, has the empty folder `WORK`, and stays only if a later run can resume the run in it. For errors see
    `check_output`, `partial_folder` and `prepare_folder`.
    """
    remote = "://" in output
    with nullcontext() if remote else partial_folder(Path(output), with_run=True) as work:
        if not remote:
            check_output(Path(output), force=True)
        folder = Folder(f"{output}{PARTIAL}" if work is None else str(work.parent))
        if not prepare_folder(folder, output, resume=arguments.resume, force=arguments.force):
            print(f"{output} is complete; use --force to overwrite it")
            yield None
            return
        yield folder
        remove_run(folder)
        if remote:
            folder.remove_itself()
