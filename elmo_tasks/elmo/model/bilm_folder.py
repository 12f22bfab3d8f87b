"""A folder or zip that holds all files of a biLM."""

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.files import MAX_JSON, read_json_object, read_utf8

MAX_UNPACKED_BYTES = 1 << 34
"""The largest file of a zip; the files of the largest published biLM take a thirtieth of it."""
MAX_TEXT = 1 << 26
"""The largest file of text; the largest dictionaries of ELMoForManyLangs have some MB."""
_ZIP_MAGIC = b"PK\3\4"


@contextmanager
def opened_folder(path: FilePath) -> Iterator["BiLmFolder | None"]:
    """
    Opens a folder or zip; gives `None` if `path` is neither.

    # Raises
    `ElmoError`: a damaged zip.
    """
    path = Path(path)
    if path.is_dir():
        yield BiLmFolder(path)
    elif path.is_file() and _first_bytes(path) == _ZIP_MAGIC:
        with TemporaryDirectory() as scratch:
            with _zip_errors(str(path)):
                folder = BiLmFolder(path, Path(scratch))
            try:
                yield folder
            except ElmoError as error:
                error.where = folder.renamed(error.where)
                raise
    else:
        yield None


@contextmanager
def _zip_errors(where: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # zipfile raises errors of many kinds for a damaged file
        raise ElmoError(f"the zip cannot be unpacked ({error})", where=where) from error


def _first_bytes(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(_ZIP_MAGIC))


class BiLmFolder:
    """
    The files of a folder or zip, by their names.

    # Parameters

    path : of the folder or zip.
    scratch : the folder that a file of a zip is unpacked to when it is first used. The file gets a new name,
        so that no member can land elsewhere. `None` for a folder.
    """

    def __init__(self, path: Path, scratch: Path | None = None) -> None:
        self._path, self._scratch = path, scratch
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._unpacked: dict[str, Path] = {}
        if scratch is not None:
            with zipfile.ZipFile(path) as archive:
                members = [member for member in archive.infolist() if not member.is_dir()]
            self._members = _by_name(members)
            self._unpacked = {
                name: scratch / f"{index:06}" for index, name in enumerate(sorted(self._members))
            }

    def has(self, name: str) -> bool:
        """Tells whether there is a file of this name. For a folder, the name may be any path."""
        return name in self._members if self._scratch is not None else Path(self._path, name).is_file()

    def where(self, name: str) -> str:
        return f"{self._path}{'!' if self._scratch is not None else '/'}{name}"

    def renamed(self, path: str) -> str:
        """Returns the name of an unpacked file by its path (`where`); any other path unchanged."""
        names = [name for name, unpacked in self._unpacked.items() if str(unpacked) == path]
        return self.where(names[0]) if names else path

    def file(self, *names: str, max_bytes: int = MAX_UNPACKED_BYTES) -> Path:
        """
        Returns the first of these files that exists, unpacked if need be.

        # Raises
        `ElmoError`: none exists, or it is damaged; or, in a zip, larger than `max_bytes`.
        """
        name = next(filter(self.has, names), None)
        if name is None:
            raise ElmoError(f"{' or '.join(names)} is missing", where=self._path)
        if self._scratch is None:
            return Path(self._path, name)
        member, target = self._members[name], self._unpacked[name]
        if member.file_size > max_bytes:
            raise ElmoError(
                f"the file has {member.file_size:,} bytes, more than {max_bytes:,}", where=self.where(name)
            )
        if not target.exists():
            with (
                _zip_errors(self.where(name)),
                zipfile.ZipFile(self._path) as archive,
                archive.open(member) as packed,
                open(target, "wb") as unpacked,
            ):
                shutil.copyfileobj(packed, unpacked)
        return target

    def text(self, name: str) -> str:
        """Reads a file of UTF-8, of at most `MAX_TEXT` bytes; for errors see `file` and `read_utf8`."""
        return read_utf8(self.file(name, max_bytes=MAX_TEXT), max_bytes=MAX_TEXT, where=self.where(name))

    def json(self, name: str) -> dict[str, Any]:
        """Reads a file of JSON; for errors see `file` and `read_json_object`."""
        return read_json_object(self.file(name, max_bytes=MAX_JSON), where=self.where(name))


def _by_name(members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Returns the files by their paths below the folders that all of them are in, if there are any."""
    # macOS adds a folder with its own notes on the files.
    members = [member for member in members if not member.filename.startswith("__MACOSX/")]
    paths = [PurePosixPath(member.filename).parts for member in members]
    while all(len(path) > 1 for path in paths) and len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    return {str(PurePosixPath(*path)): member for path, member in zip(paths, members, strict=True)}
