"""
Files that are whole or not there at all, whatever stops the process that writes them.

Where the files are that come with the project, in a checkout and in an installed wheel.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


# ==== atomic_files
@contextmanager
def atomic_file(path: Path, *, partial: str | None = None) -> Iterator[BinaryIO]:
    """
    A file to write to. Its content appears at `path` when it is whole and on the disk; until then, and if an
    exception leaves the context, whatever was at `path` stays.

    # Parameters

    partial : the name of the file beside `path` that holds the content until it is whole; by default the name
        of `path` with `.partial` behind it.

    # Raises
    `OSError`: the file cannot be written.
    """
    unfinished = path.with_name(partial or f"{path.name}.partial")
    try:
        with open(unfinished, "wb") as file:
            yield file
        put_in_place(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def check_sources_stay(
    outputs: Iterable[str | os.PathLike[str]],
    sources: Collection[str | os.PathLike[str]],
    *,
    error: type[Exception],
) -> None:
    """
    # Raises
    `error`: writing to one of the outputs would overwrite one of the sources, by whatever name it has there.
    """
    existing = [source for source in sources if os.path.exists(source)]
    for output in outputs:
        if os.path.exists(output) and any(os.path.samefile(source, output) for source in existing):
            raise error(f"{output} is the input, expected another file for the output")


def put_in_place(unfinished: Path, path: Path) -> None:
    """Renames a file when its content is on the disk; what was at `path` is replaced."""
    with open(unfinished, "rb+") as file:  # to write, as Windows asks
        os.fsync(file.fileno())
    os.replace(unfinished, path)


# ==== paths
_PACKAGE = Path(__file__).parents[1]


def bundled(name: str) -> Path:
    """
    `fixtures/...`, `pretrained/...` or `training_configs/...`: beside the package in a checkout, inside it
    in a wheel.
    """
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name
