"""The text that a verb reads, checked as a whole and copied to disk first."""

import shutil
from collections.abc import Generator
from contextlib import closing
from itertools import islice
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.staging import output_of
from elmo_tasks.data.input_files import InputError, input_files, read_lines, standard_input
from elmo_tasks.embedding.corpus import Corpus, SourceLine, write_corpus
from elmo_tasks.embedding.fasta import read_fasta

FORMATS = ("text", "fasta")


def copy_corpus(
    source: str, folder: Path, *, format: str = "text", skip_empty: bool = False, limit: int | None = None
) -> Corpus:
    """
    The text of `source`, copied to `folder`.

    # Parameters

    source : what `input_files` takes, gzip or not, or `-` for standard input. What the verb itself writes is
        left out.
    folder : the verb's `staging_folder`, or any other.
    format : one of `FORMATS`: one tokenised sentence a line, or proteins.
    skip_empty : leave out lines of white space only.
    limit : how many lines to read at most; `None` for all.

    # Raises
    `ConfigurationError`: the text is the file that the verb writes. `TextError`, with file and line: nothing
    to read, a byte that is not UTF-8; and see `write_corpus` and `read_fasta`.
    """
    with closing(_lines(source, folder)) as lines:
        sentences = read_fasta(lines) if format == "fasta" else lines
        if skip_empty:
            sentences = (sentence for sentence in sentences if sentence.text.strip())
        return write_corpus(islice(sentences, limit), folder)


def _lines(source: str, folder: Path) -> Generator[SourceLine, None, None]:
    if source != "-":
        for file in _files_to_read(source, folder):
            for number, line in read_lines(file):
                yield SourceLine(file, number, line)
        return
    name, copy = "standard input", folder / "stdin"
    with open(copy, "wb") as target:
        shutil.copyfileobj(standard_input(), target)
    try:
        for number, line in read_lines(copy):
            yield SourceLine(name, number, line)
    except InputError as error:
        raise InputError(error.message.replace(str(copy), name)) from error
    finally:
        copy.unlink()


def _files_to_read(source: str, folder: Path) -> list[Path]:
    output, work = output_of(folder).resolve(), folder.resolve()
    # All of them, before the first one is written to the folder
    files = [
        file
        for file in input_files(source)
        if (place := file.resolve()) != output and work not in place.parents
    ]
    if not files:
        raise ConfigurationError(
            f"{source} is what this command writes, expected another file for the output"
        )
    return files
