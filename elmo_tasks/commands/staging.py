"""`OUT.partial`: where a verb works until OUT is whole."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allennlp.common.checks import ConfigurationError


def check_output(output: Path, *, force: bool) -> None:
    """
    # Raises
    `ConfigurationError`: something is at `output` that must not, or cannot, be replaced.
    """
    if output.exists() and not output.is_file():
        raise ConfigurationError(f"{output} is not a file, and cannot be replaced by one")
    if output.exists() and not force:
        raise ConfigurationError(f"{output} exists; --force overwrites it")


@contextmanager
def staging_folder(output: Path, *, keep: str | None = None) -> Iterator[Path]:
    """
    The folder `OUT.partial` beside `output`, for this process alone.

    It is removed in the end, unless it holds a file `keep`: what a later run can go on from.

    # Raises
    `OSError`, where it cannot be made; `ConfigurationError`, if another process works in it.
    """
    folder = output.with_name(f"{output.name}.partial")
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        try:
            yield folder
        finally:
            if keep is None or not (folder / keep).exists():
                shutil.rmtree(folder)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigurationError(f"{folder} is in use by another process") from error
    except OSError as error:
        # Some network file systems have no locks.
        if error.errno not in (errno.EBADF, errno.ENOLCK, errno.ENOTSUP):
            raise
