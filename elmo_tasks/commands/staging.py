"""OUT.partial, the folder in which a verb works until OUT is complete, and there a copy of the text."""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from allennlp.common.checks import ConfigurationError
from filelock import lock_descriptor

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import naming_when_full, put_in_place
from elmo_tasks.data.input_files import (
    InputError,
    input_files,
    read_lines,
    read_sentences,
    shorten,
    standard_input,
)
from elmo_tasks.data.tokenization import raw_word, tokenizer, tokenizer_of_script
from elmo_tasks.embedding.corpus import Corpus, SourceLine, read_fasta, write_corpus
from elmo_tasks.jobs.locations import MARK, texts_among

FORMATS = ("text", "fasta")
_PARTIAL = ".partial"


def check_output(output: Path, *, force: bool) -> None:
    """Raises `ConfigurationError` if `output` must not, or cannot, be replaced, or is `-`."""
    if str(output) == "-":
        raise ConfigurationError("found - for the output, expected the name of a file")
    if output.exists() and not output.is_file():
        raise ConfigurationError(f"{output} is not a file, and cannot be replaced by one")
    if output.exists() and not force:
        raise ConfigurationError(f"{output} exists; --force overwrites it")


@contextmanager
def staging_folder(output: Path, *, keep: Collection[str] = ()) -> Iterator[Path]:
    """
    Makes the folder `OUT.partial` beside `output`, for this process alone, and the folders above it.

    It is removed in the end, unless it holds one of the files `keep`, which a later run needs. Without these,
    the files of a process that was killed are removed at the start. `MARK` or a file of `keep` tells such a
    folder; one that is not of a command, or in which another process works, is a `ConfigurationError`.
    """
    if not output.name:
        raise ConfigurationError(f"found the output {str(output)!r}, expected the name of a file or folder")
    folder = output.with_name(f"{output.name}{_PARTIAL}")
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
    if folder.is_symlink() or not folder.is_dir():
        raise _not_ours(folder, "a link" if folder.is_symlink() else "a file")

    def is_needed() -> bool:
        return any((folder / name).exists() for name in keep)

    mark = folder / MARK
    try:
        names = set(os.listdir(folder))
        if mark.is_symlink():
            raise _not_ours(folder, MARK)
        if names and names.isdisjoint((MARK, *keep)):
            raise _not_ours(folder, min(names))
        with naming_when_full(output):
            file = open(mark, "ab")  # noqa: SIM115
    except FileNotFoundError as error:
        raise _in_use(folder) from error
    with naming_when_full(output), file:
        locked = _lock(file.fileno(), folder)
        # The process that worked in it before may have removed it just now.
        if not mark.exists() or not os.path.samestat(os.fstat(file.fileno()), mark.stat()):
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
    """Removes a file that is locked, on Windows as soon as it is closed."""
    try:
        path.unlink()
    except PermissionError:
        file.close()
        path.unlink()


def _remove_files(folder: Path) -> None:
    """Removes all but the mark, which goes last: a process may be killed meanwhile."""
    for path in folder.iterdir():
        if path.name != MARK:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _not_ours(folder: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        f"{folder}: found {found}, which this command did not write; expected nothing of this name, where it "
        "works until the output is whole"
    )


@contextmanager
def staged_file(output: Path, *, force: bool) -> Iterator[Path]:
    """
    Yields a path in the staging folder of `output`. The file that is written there becomes `output` in the
    end, unless an exception leaves the context. For errors see `check_output` and `staging_folder`.
    """
    check_output(output, force=force)
    with staging_folder(output) as folder:
        yield folder / output.name
        publish(folder, output.parent, [output.name])


def publish(folder: Path, target: Path, names: Iterable[str]) -> list[str]:
    """Moves whole files to the folder `target`, one by one; returns the names of those that were there."""
    published = [name for name in names if (folder / name).exists()]
    for name in published:
        put_in_place(folder / name, target / name)
    return published


def _lock(descriptor: int, folder: Path) -> bool:
    """Locks the folder. Returns false if the file system has no locks."""
    try:
        locked = lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        # Some network file systems have no locks.
        if error.errno not in (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        return False
    if not locked:
        raise _in_use(folder)
    return True


def _in_use(folder: Path) -> ConfigurationError:
    return ConfigurationError(f"{folder} is in use by another process")


def copy_corpus(
    source: str,
    folder: Path,
    *,
    format: str = "text",
    tokenize: str | None = None,
    skip_empty: bool = False,
    limit: int | None = None,
) -> Corpus:
    """
    Copies the text of `source` to `folder`: at most `limit` lines, without blank ones if they are skipped.

    # Parameters

    source : as for `input_files`, or `-` for standard input. The files that the verb itself writes are left
        out.
    format : one of `FORMATS`: one tokenised sentence a line, or proteins.
    tokenize : splits the lines, see `chosen_tokenizer`. Without it, a warning names the first line that looks
        like raw text.

    # Raises
    `ElmoError`, with file and line: nothing to read but the file that the verb writes, no protein in FASTA;
    and see `read_sentences`, `write_corpus` and `read_fasta`. `ConfigurationError`: `tokenize` for proteins.
    """
    if format == "fasta" and tokenize is not None:
        raise ConfigurationError(f"found --tokenize {tokenize} with --format fasta, expected one of the two")
    read = read_lines if format == "fasta" else read_sentences
    with closing(_lines(source, folder, read)) as lines:
        sentences: Iterable[SourceLine]
        if format == "fasta":
            sentences = read_fasta(lines)
        elif tokenize is not None:
            split = tokenizer(tokenize)
            sentences = (line._replace(text=" ".join(split(line.text).words)) for line in lines)
        else:
            sentences = _warning_of_raw_text(lines)
        if skip_empty:
            sentences = (sentence for sentence in sentences if sentence.text.strip())
        corpus = write_corpus(islice(sentences, limit), folder)
    if format == "fasta" and not len(corpus):
        raise ElmoError.at(source, None, found="no protein", expected="a header, as '>P12345', and residues")
    return corpus


def _warning_of_raw_text(lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
    warned = False
    for line in lines:
        if not warned and (word := raw_word(line.text)) is not None:
            warned = True
            choice = "characters" if tokenizer_of_script(word) == "characters" else "LANGUAGE"
            print(
                f"warning: {line.where}, line {line.line_number}: found {shorten(word)!r}, which is read as "
                f"one token; expected blanks between tokens, as `embed --tokenize {choice}` puts them",
                file=sys.stderr,
            )
        yield line


def _lines(
    source: str, folder: Path, read: Callable[[str | Path], Iterator[tuple[int, str]]]
) -> Generator[SourceLine, None, None]:
    if source != "-":
        output = folder.with_name(folder.name.removesuffix(_PARTIAL))
        # All files are listed before the first line is written to the folder.
        for file in texts_among(list(map(str, input_files(source))), source, [str(folder), str(output)]):
            for line_number, line in read(file):
                yield SourceLine(file, line_number, line)
        return
    name, copy = "standard input", copy_piped(source, folder)
    try:
        for line_number, line in read(copy):
            yield SourceLine(name, line_number, line)
    except InputError as error:
        raise InputError(error.message.replace(str(copy), name)) from error
    finally:
        copy.unlink()


def is_piped(source: str) -> bool:
    """Tells whether a source can be read only once."""
    return source == "-" or Path(source).is_fifo()


def copy_piped(source: str, folder: Path) -> Path:
    """Copies standard input (`-`) or a pipe to a file in `folder`."""
    copy = folder / "stdin"
    with open(copy, "wb") as target:
        if source == "-":
            shutil.copyfileobj(standard_input(), target)
        else:
            with open(source, "rb") as pipe:
                shutil.copyfileobj(pipe, target)
    return copy
