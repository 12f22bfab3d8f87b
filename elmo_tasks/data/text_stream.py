"""Text as a stream of passages, in memory that does not grow with the text: generators, step by step."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice, starmap
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from allennlp.data import Instance

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.text_checks import CHECKED
from elmo_tasks.data.input_files import InputError, read_sentences, shorten
from elmo_tasks.data.reader import text_fields
from elmo_tasks.data.tokenization import RenewedPipeline, first_raw_word, language_rules

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

WordsOrLine = str | list[str]
"""Words, or a line of words between blanks, which takes less memory."""
Passage = list[WordsOrLine]

MAX_LINE = 1_000_000
"""Bytes of a line. A longer line is read in pieces of at most this size, cut between words."""
MAX_PARAGRAPH = 100_000
"""Characters of a paragraph. A longer paragraph ends with the line that reaches this size."""


def words_of(sentence: WordsOrLine) -> list[str]:
    return sentence.split() if isinstance(sentence, str) else sentence


def file_sentences(
    files: Iterable[Path], warn: Callable[..., object] = logger.warning
) -> Iterator[WordsOrLine | None]:
    """
    Yields the lines, one sentence each, and `None` for an empty line and for the end of a file. Logs a
    warning for a text that does not look tokenised.
    """
    for file in files:
        lines = read_sentences(file, max_bytes=MAX_LINE, warn=warn)
        first_lines = list(islice(lines, CHECKED))
        if (raw := first_raw_word(line for _, line in first_lines)) is not None:
            warn(
                "%s: %r and other texts are read as one word each; put blanks between tokens, or set "
                "running_text: true",
                str(file),
                shorten(raw[1]),
            )
        empty = True
        for _, line in chain(first_lines, lines):
            if not line or line.isspace():
                yield None
            else:
                empty = False
                yield line
        if empty:
            logger.warning("%s: the file has no sentences", file)
        yield None


def file_paragraphs(files: Iterable[Path], warn: Callable[..., object] = logger.warning) -> Iterator[str]:
    """Yields the running text between empty lines, its lines joined by blanks."""
    for file in files:
        paragraph: list[str] = []
        characters = last = 0
        for line_number, line in read_sentences(file, max_bytes=MAX_PARAGRAPH, warn=warn):
            is_end = not line or line.isspace()
            if not is_end and paragraph and line_number == last:
                # A piece of a long line
                paragraph[-1] += line
            elif not is_end:
                paragraph.append(line)
            last = line_number
            characters += 0 if is_end else len(line)
            if paragraph and (is_end or characters >= MAX_PARAGRAPH):
                yield " ".join(paragraph)
                paragraph, characters = [], 0
        if paragraph:
            yield " ".join(paragraph)


class SentenceSplitter:
    """Splits running text into sentences and words by spaCy's rules for a language, see `language_rules`."""

    def __init__(self, language: str) -> None:
        self._pipeline = RenewedPipeline(partial(language_rules, language, sentences=True))

    def __call__(self, paragraphs: Iterable[str]) -> Iterator[WordsOrLine | None]:
        """Yields the sentences, and `None` after each paragraph."""
        for paragraph in paragraphs:
            for sentence in self._pipeline(len(paragraph))(paragraph).sents:
                if words := [token.text for token in sentence if not token.is_space]:
                    yield words
            yield None


def instance_sentences(instances: Iterable[Instance]) -> Iterator[WordsOrLine]:
    """Yields the different texts of each instance that the instance before it does not have."""
    previous: dict[tuple[str, ...], None] = {}
    for instance in instances:
        texts = dict.fromkeys(
            tuple(token.text for token in text.tokens if token.text)
            for field in instance.fields.values()
            for text in text_fields(field)
        )
        yield from (list(words) for words in texts if words and words not in previous)
        previous = texts


class LongSentences:
    """Cuts sentences of more than `max_words` words into several, and counts those that it cuts."""

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words
        self.cut = 0

    def __call__(self, sentences: Iterable[WordsOrLine | None]) -> Iterator[WordsOrLine | None]:
        for sentence in sentences:
            # A line has more characters than words: most lines need not be split to be counted.
            if (
                sentence is None
                or len(sentence) <= self.max_words
                or len(words := words_of(sentence)) <= self.max_words
            ):
                yield sentence
            else:
                self.cut += 1
                for start in range(0, len(words), self.max_words):
                    yield words[start : start + self.max_words]


def passages(
    sentences: Iterable[WordsOrLine | None],
    size: int | None,
    *,
    restart: float = 0.0,
    random: Random | None = None,
) -> Iterator[Passage]:
    """
    Yields passages of at most `size` sentences, or of any length if that is `None`. A `None` among the
    sentences ends a passage; with `random`, so does each sentence with the probability `restart`.
    """
    passage: Passage = []
    for sentence in sentences:
        if sentence is not None:
            passage.append(sentence)
        ends = random is not None and restart > 0 and sentence is not None and random.random() < restart
        if passage and (ends or sentence is None or len(passage) == size):
            yield passage
            passage = []
    if passage:
        yield passage


def shuffled(items: Iterable[Item], size: int, random: Random) -> Iterator[Item]:
    """Yields the items in a random order: each is drawn from a buffer of `size` items."""

    def draw() -> Item:
        index = random.randrange(len(buffer))
        buffer[index], buffer[-1] = buffer[-1], buffer[index]
        return buffer.pop()

    buffer: list[Item] = []
    for item in items:
        buffer.append(item)
        if len(buffer) == size:
            yield draw()
    while buffer:
        yield draw()


def subsampled(words: list[str], probabilities: dict[str, float], random: Random) -> list[str]:
    """Returns the words, of which those in `probabilities` are kept with their probability."""
    return [word for word in words if word not in probabilities or random.random() < probabilities[word]]


class Protein(NamedTuple):
    """The file and the line of a header of FASTA, the residues with blanks between them, and the name."""

    where: FilePath
    line_number: int
    text: str
    key: str = ""


_STOP = "*"
"""The stop character after the last residue in some files of FASTA. It is left out."""


def read_fasta(lines: Iterable[tuple[FilePath, int, str]]) -> Iterator[Protein]:
    """
    Yields the proteins of FASTA files: the residues in capitals, and the first word of the header as name.
    Anything else is an `InputError`, with file and line.
    """
    header: Protein | None = None
    residues = ""
    for line in starmap(Protein, lines):
        text = "".join(line.text.split())
        if line.text.startswith(">"):
            if header is not None:
                yield _protein(header, residues)
            name, *_ = line.text[1:].split() or [""]
            if not name or not name.isprintable():
                raise _no_fasta(line, f"{line.text[:20]!r} has no name after '>'")
            header, residues = line._replace(key=name), ""
        elif text:
            if header is None or header.where != line.where:
                raise _no_fasta(line, f"{text[:20]!r} is not a header, such as '>P12345'")
            # Only the last character of a protein may be `_STOP`.
            if other := re.search("[^A-Za-z]", residues[-1:] + text.removesuffix(_STOP)):
                raise _no_fasta(line, f"{other.group()!r} is not a residue, which is a letter")
            residues += text.upper()
    if header is not None:
        yield _protein(header, residues)


def _protein(header: Protein, residues: str) -> Protein:
    letters = residues.removesuffix(_STOP)
    if not letters:
        raise _no_fasta(header, f"{header.key!r} has no residues")
    return header._replace(text=" ".join(letters))


def _no_fasta(line: Protein, what: str) -> InputError:
    return InputError(what, where=line.where, line=line.line_number)
