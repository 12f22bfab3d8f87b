"""The copy of the text that a verb reads, whatever its format."""

import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice, starmap
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.partial_outputs import PARTIAL
from elmo_tasks.data.formats.fasta import read_fasta
from elmo_tasks.data.input_files import (
    InputError,
    check_found,
    input_files,
    read_lines,
    read_sentences,
    shorten,
)
from elmo_tasks.data.tokenization import raw_word, tokenizer, tokenizer_of_script
from elmo_tasks.embedding.corpus import Corpus, SourceLine, write_corpus
from elmo_tasks.jobs.locations import texts_among

FORMATS = ("text", "fasta")


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
        raise ConfigurationError("--tokenize is not for --format fasta")
    read = read_lines if format == "fasta" else read_sentences
    with closing(_lines(source, folder, read)) as lines:
        sentences: Iterable[SourceLine]
        if format == "fasta":
            proteins = read_fasta((line.where, line.line_number, line.text) for line in lines)
            sentences = starmap(SourceLine, proteins)
        elif tokenize is not None:
            split = tokenizer(tokenize)
            sentences = (line._replace(text=" ".join(split(line.text).words)) for line in lines)
        else:
            sentences = _warning_of_raw_text(lines)
        if skip_empty:
            sentences = (sentence for sentence in sentences if sentence.text.strip())
        corpus = write_corpus(islice(sentences, limit), folder)
    if format == "fasta":
        check_found(len(corpus), "protein", source)
    return corpus


def _warning_of_raw_text(lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
    warned = False
    for line in lines:
        if not warned and (word := raw_word(line.text)) is not None:
            warned = True
            choice = "characters" if tokenizer_of_script(word) == "characters" else "LANGUAGE"
            print(
                f"warning: {line.where}, line {line.line_number}: {shorten(word)!r} is read as one token; "
                f"`embed --tokenize {choice}` splits raw text",
                file=sys.stderr,
            )
        yield line


def _lines(
    source: str, folder: Path, read: Callable[[str | Path], Iterator[tuple[int, str]]]
) -> Generator[SourceLine, None, None]:
    if source != "-":
        output = folder.with_name(folder.name.removesuffix(PARTIAL))
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
        raise InputError(str(error).replace(str(copy), name)) from error
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
            shutil.copyfileobj(sys.stdin.buffer, target)
        else:
            with open(source, "rb") as pipe:
                shutil.copyfileobj(pipe, target)
    return copy
