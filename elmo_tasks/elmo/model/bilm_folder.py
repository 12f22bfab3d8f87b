"""The files of a biLM that come together, in a folder or a zip."""

import json
import lzma
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from elmo_tasks.common import strict_json
from elmo_tasks.common.errors import ElmoError, FilePath

MAX_BYTES = 1 << 34
"""Of a file in a zip; those of the largest biLM that was published take a thirtieth of it."""
_ZIP_MAGIC = b"PK\3\4"
_UNPACKING_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError)
"""Of damage; a `RuntimeError` of what is encrypted, or packed in a way that Python does not know."""


class BiLmFolder:
    """
    The files of a folder or zip, by their names.

    # Parameters

    path : of the folder or zip.
    scratch : where a file of a zip is unpacked to, when it is asked for: under a name of ours, so that none
        lands elsewhere. `None` for a folder.
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
                name: scratch / f"{number:06}" for number, name in enumerate(sorted(self._members))
            }

    def has(self, name: str) -> bool:
        """Of a folder, `name` may be any path."""
        return name in self._members if self._scratch is not None else Path(self._path, name).is_file()

    def where(self, name: str) -> str:
        """How errors name a file."""
        return f"{self._path}{'!' if self._scratch is not None else '/'}{name}"

    def one_of(self, names: Sequence[str]) -> Path:
        """
        The first of some files that is there.

        # Raises
        `ElmoError`: none is, or see `file`.
        """
        for name in filter(self.has, names):
            return self.file(name)
        raise ElmoError(f"{self._path}: {' or '.join(names)} is missing")

    def file(self, name: str) -> Path:
        """
        # Raises
        `ElmoError`: it is not there, larger than `MAX_BYTES`, or damaged.
        """
        if not self.has(name):
            raise ElmoError(f"{self._path}: {name} is missing")
        if self._scratch is None:
            return Path(self._path, name)
        member, target = self._members[name], self._unpacked[name]
        if member.file_size > MAX_BYTES:
            raise ElmoError(
                f"{self.where(name)}: found {member.file_size:,} bytes, expected at most {MAX_BYTES:,}"
            )
        if not target.exists():
            try:
                with (
                    zipfile.ZipFile(self._path) as archive,
                    archive.open(member) as packed,
                    open(target, "wb") as unpacked,
                ):
                    shutil.copyfileobj(packed, unpacked)
            except _UNPACKING_ERRORS as error:
                raise ElmoError(f"{self.where(name)}: cannot be unpacked ({error})") from error
        return target

    def named(self, message: str) -> str:
        """An error with the names of unpacked files as `where` has them."""
        for name, path in self._unpacked.items():
            message = message.replace(str(path), self.where(name))
        return message

    def json(self, name: str) -> dict[str, Any]:
        """
        # Raises
        `ElmoError`: see `file`; or it is not an object of JSON.
        """
        try:
            content = strict_json.loads(self.file(name).read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ElmoError(f"{self.where(name)}: not JSON: {error}") from error
        if not isinstance(content, dict):
            raise ElmoError(f"{self.where(name)}: found {type(content).__name__}, expected an object")
        return content


@contextmanager
def opened_folder(path: FilePath) -> Iterator[BiLmFolder | None]:
    """
    `None` where `path` is neither a folder nor a zip.

    # Raises
    `ElmoError`: a damaged zip.
    """
    path = Path(path)
    if path.is_dir():
        yield BiLmFolder(path)
    elif path.is_file() and _begin(path) == _ZIP_MAGIC:
        with TemporaryDirectory() as scratch:
            try:
                folder = BiLmFolder(path, Path(scratch))
            except zipfile.BadZipFile as error:
                raise ElmoError(f"{path}: not a whole zip ({error})") from error
            try:
                yield folder
            except ElmoError as error:
                raise ElmoError(folder.named(str(error))) from error
    else:
        yield None


def _begin(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(_ZIP_MAGIC))


def _by_name(members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The files by their paths below the folders that hold all of them, if there are such."""
    # macOS puts a folder with its own notes on the files beside them.
    members = [member for member in members if not member.filename.startswith("__MACOSX/")]
    paths = [PurePosixPath(member.filename).parts for member in members]
    while all(len(path) > 1 for path in paths) and len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    return {str(PurePosixPath(*path)): member for path, member in zip(paths, members, strict=True)}
