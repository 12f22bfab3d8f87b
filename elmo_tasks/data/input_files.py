"""
The files at a path of a config, their lines, and JSON in them, for all readers.

A missing or broken file, and a byte that is not of the encoding, are errors that name the file and the line.
"""

import codecs
import glob
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from allennlp.common import file_utils
from allennlp.common.file_utils import cached_path

from elmo_tasks.common import files as common_files
from elmo_tasks.common.errors import ElmoError, did_you_mean_path, errors_as
from elmo_tasks.common.files import is_archive, json_value, unpacked
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.common.text_checks import checked_sentences

logger = logging.getLogger(__name__)

Made = TypeVar("Made")

ID_KEYS = (
    *("id", "pairID", "pair_ID", "uid", "guid", "idx", "index"),
    *("doc_key", "doc_id", "sent_id", "sentence_id"),
)
"""The fields of a record that tell which it is, whatever their length."""
_LONGEST_ID = 64
"""Characters; a longer value is a text or an address."""
_MEMBER = re.compile(r"\((.+)\)#(.+)")
"""A member of an archive, as AllenNLP writes it."""
_OFFICE = (".xlsx", ".ods", ".docx", ".odt")
"""Office documents, which are zip archives."""
_ABOUT = re.compile(r"(readme|licen[cs]e|copying|changelog|authors)([._-].*)?|.*\.conf", re.IGNORECASE)
"""Files about the data, and brat's own configuration."""
_NEAR = 30
"""The most characters between the stated place of a text and its own."""
_WESTERN = "cp1252"
_ENCODINGS = [_WESTERN, "cp1251", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"]
_SAMPLE = 1 << 16
"""The bytes of lines beyond ASCII that show an encoding."""


class InputError(ConfigError):
    """An error in an input: the file and the line, what is wrong, and what to do."""

    ids: Mapping[str, Any] | None = None
    """The keys by which the file names the record with the error, if they are known."""
    row: Mapping[str, Any] | None = None
    """All values of the record with the error, if they could be read."""


class NoWordsError(InputError):
    """The error of a record without words."""


def ids_of(values: Mapping[str, Any], read: Collection[str | None] = ()) -> dict[str, Any]:
    """Returns the values that predictions repeat: the ids, and all others that are short and not `read`."""
    return {
        key: value
        for key, value in values.items()
        if type(value) in (str, int)
        and (key in ID_KEYS or (key not in read and len(str(value)) <= _LONGEST_ID))
    }


def value_or_error(
    path: Path,
    line: int | None,
    make: Callable[..., Made],
    *arguments: Any,
    ids: Mapping[str, Any] = MappingProxyType({}),
) -> "Made | InputError":
    """
    Returns the value of a function, or the `InputError` that it raises, since the next record may be good.
    The error gets the file, the line and the ids of the record, unless it has its own.
    """
    try:
        return make(*arguments)
    except InputError as error:
        error.where = error.where or str(path)
        error.line = line if error.line is None else error.line
        error.ids = ids if error.ids is None else error.ids
        return error


class Record:
    """
    A record of a file: the line at which it starts (in Parquet its row, from 1), and its values by name, or
    its error, if it is damaged and those after it are not.
    """

    __slots__ = ("_content", "line", "path")

    def __init__(self, path: Path, line: int, content: dict[str, Any] | InputError) -> None:
        self.path, self.line, self._content = path, line, content

    @property
    def values(self) -> dict[str, Any]:
        """The values by name; for a damaged record, its `InputError` is raised."""
        if isinstance(self._content, InputError):
            raise self._content
        return self._content

    def make(
        self, function: Callable[[dict[str, Any]], Made], read: Collection[str] = ()
    ) -> "Made | InputError":
        """
        Returns what a function makes of the values, or its `InputError`, or the error of the record. An error
        has the values of the record, and the ids of one whose fields `read` are read.
        """
        if isinstance(self._content, InputError):
            return self._content
        ids = ids_of(self._content, read)
        made = value_or_error(self.path, self.line, function, self._content, ids=ids)
        if isinstance(made, InputError):
            made.row = self._content
        return made


def input_files(path: str | os.PathLike[str] | list[str]) -> list[Path]:
    """
    Returns the files at `path`, in a fixed order. An archive counts as a folder.

    - A file; `fixtures/...` also finds the files of the project.
    - A folder: all files below it, at any depth, except hidden ones (a leading dot), pipes and devices, and
      README, LICENSE and the like.
    - A pattern with `*`, `?`, `[...]` or `**`: the files and folders that match it.
    - A URL (`https://`, `s3://`, `gs://`, `hf://`, `file://`): the file, kept in AllenNLP's cache.
    - `archive.zip!member` or `(archive.zip)#member`, also in a `.tar.gz` or at a URL: a file or folder in it.
    - A list of these, which is not empty: the files of each, in the order of the list.

    Where nothing is there, or an archive is damaged, an office document, or among other files, it is an
    `InputError`.
    """
    if isinstance(path, list):
        return [file for part in path for file in input_files(part)]
    text = common_files.local_or_bundled(path)
    if not os.path.exists(text) and (member := _MEMBER.fullmatch(text)):
        text = os.path.expanduser("!".join(member.groups()))
    if os.path.exists(text):
        paths = [_content(text)]
    elif "://" in text or ("!" in text and os.path.isfile(text.partition("!")[0])):
        paths = [_fetch(text)]
    else:
        paths = [_content(match) for match in glob.glob(text, recursive=True)]
    files = sorted(
        {file for path in paths for file in (_data_below(path) if os.path.isdir(path) else [Path(path)])}
    )
    if not files:
        remedy = did_you_mean_path(text).removeprefix("; ") or "give a file, folder, pattern or URL"
        raise InputError("there is no such file", where=path, remedy=remedy)
    return files


def file_beside(file: Path, name: str) -> Path:
    """Returns the file `name` in the folder of `file`, which needs it; `InputError` if it is missing."""
    neighbour = file.with_name(name)
    if not neighbour.exists():
        raise InputError(f"there is no such file, which belongs to {file.name}", where=neighbour)
    return neighbour


def read_lines(
    path: str | os.PathLike[str], *, max_bytes: int | None = None, encoding: str | None = None
) -> Iterator[tuple[int, str]]:
    """
    Yields the numbered lines of a text, see `common.files.line_blocks`, whose errors are `InputError`s here.
    If the text is not of the encoding that a reader gives, the error names one that fits.
    """
    blocks = common_files.line_blocks(path, max_bytes=max_bytes, encoding=encoding or "utf-8")
    return chain.from_iterable(_with_input_errors(path, blocks, encoding))


def _with_input_errors(
    path: str | os.PathLike[str], blocks: Iterator[Made], encoding: str | None
) -> Iterator[Made]:
    try:
        yield from blocks
    except ElmoError as error:
        input_error = InputError.of(error)
        is_of_another = encoding is not None and isinstance(error.__cause__, UnicodeError)
        if is_of_another and (fitting := likely_encoding(path)):
            input_error.remedy = f"it looks like {fitting}: set the reader's key `encoding`"
        raise input_error from error


def first_lines(path: Path, count: int, encoding: str) -> list[str]:
    """Returns the first lines of a text; none if the file is not a text."""
    with suppress(ElmoError):
        return [line for _, line in islice(common_files.text_lines(path, encoding=encoding), count)]
    return []


def counterpart(path: Path, name: str, other: str) -> Path | None:
    """Returns the file with another last word in its name, as `train.props.gz` of `train.words.gz`."""
    file_name = re.sub(rf"(.*)(?<![a-zA-Z]){re.escape(name)}(?![a-zA-Z])", rf"\1{other}", path.name)
    if file_name == path.name:
        return None
    folders = [path.parent] + [path.parent.parent / other] * (path.parent.name == name)
    return next((file for folder in folders if (file := folder / file_name).is_file()), None)


def main_files(files: Iterable[Path], companions: Mapping[str, Sequence[str]]) -> list[Path]:
    """
    Returns the files, with the main file in place of each that is read with it. `companions` has the words in
    the names of these, see `counterpart`, by the word in the name of the main file.
    """
    names = [(main, other) for main, others in companions.items() for other in others]

    def main_file(file: Path) -> Path:
        return next((found for main, other in names if (found := counterpart(file, other, main))), file)

    return list(dict.fromkeys(map(main_file, files)))


def read_side_by_side(path: Path, other: Path, encoding: str) -> Iterator[tuple[int, str, str]]:
    """Yields the numbered lines of a file, each with the line of another, which has as many."""
    pairs = zip_longest(read_lines(path, encoding=encoding), read_lines(other, encoding=encoding))
    for line_number, (line, beside) in enumerate(pairs, start=1):
        shorter, longer, more = (path, other, beside) if line is None else (other, path, line)
        if None in (line, beside) and more[1].strip():
            raise InputError(f"the file has fewer lines than {longer}", where=shorter, line=line_number)
        yield line_number, line[1] if line else "", beside[1] if beside else ""


def check_found(found: object, names: str, where: str | Path) -> None:
    """Raises `InputError` if nothing of this kind, such as `pairs`, was found in a file."""
    if not found:
        raise InputError(f"there are no {names}", where=where)


def nonblank_lines(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yields the numbered lines of a text that hold more than white space, see `read_lines`."""
    return ((number, line) for number, line in read_lines(path, encoding=encoding) if line.strip())


def read_sentences(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    warn: Callable[..., object] = logger.warning,
) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text, see `read_lines` and `checked_sentences`, which raise `InputError` here."""
    try:
        yield from checked_sentences(path, read_lines(path, max_bytes=max_bytes), warn)
    except ElmoError as error:
        raise InputError.of(error) from error


def likely_encoding(path: str | os.PathLike[str]) -> str | None:
    """Returns the likely encoding of a text, by all of its lines; `None` if none of the usual ones fits."""
    from charset_normalizer import from_bytes  # for errors only

    sample, is_utf8 = b"", True
    with suppress(*common_files.UNREADABLE), open(path, "rb") as packed:
        file = common_files.decompressed(packed)
        for line in file:
            if line.isascii():
                continue
            if not sample and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            is_utf8 = is_utf8 and _decodes(line, "utf-8")
            if len(sample) < _SAMPLE:
                sample += line
        if is_utf8:
            return "utf-8" if sample else "ascii"
        if not _has_lone_accents(sample):
            best = from_bytes(sample, cp_isolation=_ENCODINGS).best()
            if best is None or best.encoding != _WESTERN:
                return best.encoding if best else None
        file.seek(0)
        return _WESTERN if all(_decodes(line, _WESTERN) for line in file) else "latin-1"
    return None


def _has_lone_accents(sample: bytes) -> bool:
    """Tells whether bytes beyond ASCII stand alone among letters, as in Western languages."""
    beyond = re.findall(rb"[\x80-\xff]+", sample)
    alone = sum(len(run) == 1 for run in beyond)
    return 3 * alone > 2 * len(beyond) and len(re.findall(rb"[A-Za-z]", sample)) > 2 * len(b"".join(beyond))


def _decodes(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _data_below(folder: str) -> list[Path]:
    """Returns the files below a folder, without those that describe it, unless there are no others."""
    files = _below(folder)
    data = [file for file in files if not (_ABOUT.fullmatch(file.name) or _is_empty(file))]
    if 0 < len(data) < len(files):
        left_out = len(files) - len(data)
        logger.info("%s: %d files left out, empty, or such as README and LICENSE", folder, left_out)
    return data or files


def _is_empty(file: Path) -> bool:
    return file.exists() and file.stat().st_size == 0


def _below(path: str) -> list[Path]:
    """
    Returns the files below a folder, without pipes and devices. Links are followed once. An archive among the
    files is an `InputError`.
    """
    files: list[Path] = []
    visited: set[str] = set()
    for folder, subfolders, names in os.walk(path, followlinks=True):
        if os.path.realpath(folder) in visited:
            subfolders.clear()
            continue
        visited.add(os.path.realpath(folder))
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        paths = (Path(folder, name) for name in names if not name.startswith("."))
        # A link that leads nowhere is an error of reading it.
        files.extend(path for path in paths if path.is_file() or not path.exists())
    for file in files:
        if is_archive(file):
            raise InputError("this archive lies among other files", where=file, remedy="give its own path")
    return sorted(files)


def _content(path: str) -> str:
    """Returns the folder of an archive's contents, or the path of any other file or folder."""
    if not is_archive(Path(path)):
        return path
    if path.lower().endswith(_OFFICE):
        remedy = "save it as csv, or as plain text"
        raise InputError("this is an office document", where=path, remedy=remedy)
    # Each kind of archive raises its own classes, with no common base.
    with errors_as(InputError, "the archive cannot be unpacked", where=path):
        return str(_unpacked(Path(path)))


def _unpacked(file: Path) -> Path:
    return unpacked(file, Path(file_utils.CACHE_DIRECTORY).expanduser())


def _fetch(text: str) -> str:
    name, in_archive, member = text.partition("!")
    # Each kind of store and archive raises its own classes, with no common base.
    with errors_as(InputError, "cannot be fetched", where=text):
        file = Path(cached_path(name))
        if not in_archive:
            return _content(str(file))
        path = (folder := _unpacked(file)) / member
        if not path.resolve().is_relative_to(folder.resolve()) or not path.exists():
            raise FileNotFoundError(f"{member!r} not found in {name}")
        return _content(str(path))


def parse_json(text: str, path: str | Path, line: int) -> Any:
    """Returns the value of a text from line `line` on. `InputError`, with the line: it is not JSON."""
    try:
        return json_value(text)
    except json.JSONDecodeError as error:
        problem = f"this is not JSON ({error.msg}, column {error.colno})"
        raise InputError(problem, where=path, line=line + error.lineno - 1) from error


def read_json(path: Path, *, encoding: str | None = None) -> Any:
    """Returns the value of a whole file, plain or packed; for errors see `parse_json` and `read_lines`."""
    return parse_json("\n".join(line for _, line in read_lines(path, encoding=encoding)), path, 1)


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields the number and the value of each line that is not blank, see `parse_json` and `read_lines`."""
    for line_number, line in nonblank_lines(path):
        yield line_number, parse_json(line, path, line_number)


def place_near(text: str, part: str, stated: int) -> int | None:
    """Returns where a part of a text is, if it is once near the place that a file states."""
    begin = max(0, stated - _NEAR)
    near = text[begin : max(0, stated + len(part) + _NEAR)]
    return begin + near.index(part) if near.count(part) == 1 else None


def shorten(text: str, length: int = 80) -> str:
    """Returns the start of a long text, followed by three dots."""
    return text if len(text) <= length else f"{text[:length]}..."


def shorten_json(value: object, length: int = 80) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), length)


def printable(text: str) -> str:
    """Returns a text that any file can hold: surrogates, which are not characters, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
