"""
A text on disk, one tokenised sentence a line, so that memory does not grow with the text.

`write_corpus` copies the lines of a text. After that, changes of the file that they came from do not matter.
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress

MAX_TOKENS = 1 << 16
"""The tokens of a line at most; a longer line is a text that was not split into sentences."""
TEXT = "text"
END_OF_KEY = "\0"


class SourceLine(NamedTuple):
    where: str | PathLike[str]
    line_number: int
    text: str
    key: str | None = None


@dataclass(kw_only=True)
class Corpus:
    """
    The lines of a text, without the white space around them, in the file that `write_corpus` makes in a
    folder. `text[i]` is line i, from 0. Iterating is faster.
    """

    path: Path
    lines: int
    tokens: int
    digest: str
    has_keys: bool

    def __len__(self) -> int:
        return self.lines

    def __getitem__(self, line: int) -> str:
        line = range(len(self))[line]
        with open(self.path, "rb") as file:
            file.seek(self._starts[line])
            return self._split(file.readline())[1]

    def __iter__(self) -> Iterator[str]:
        return (text for _, text in self.keyed_lines())

    def keyed_lines(self) -> Iterator[tuple[str, str]]:
        """Yields each line with its name, by default its number from 0."""
        with open(self.path, "rb") as file:
            for number, line in enumerate(file):
                key, text = self._split(line)
                yield key if self.has_keys else str(number), text

    def sentence_to_index(self) -> Iterator[bytes]:
        """Yields JSON that maps each line to its number, in pieces: `{"a line": "0", ...}`."""
        yield b"{"
        for number, sentence in enumerate(self):
            yield f'{", " if number else ""}{json.dumps(sentence)}: "{number}"'.encode()
        yield b"}"

    def _split(self, line: bytes) -> tuple[str, str]:
        text = line[:-1].decode()
        if not self.has_keys:
            return "", text
        key, _, text = text.partition(END_OF_KEY)
        return key, text

    @cached_property
    def _starts(self) -> Sequence[int]:
        with open(self.path, "rb") as file:
            return array("Q", accumulate(map(len, file), initial=0))


def write_corpus(lines: Iterable[SourceLine], folder: Path) -> Corpus:
    """
    Writes lines, of which all have a key or none. A line that `MAX_TOKENS`, UTF-8 or line breaks forbid is an
    `ElmoError`.
    """
    tokens = count = 0
    has_keys = False
    digest = blake2b(digest_size=16)
    with open(folder / TEXT, "wb") as file:
        for line in progress(lines, work="reading", unit="lines"):
            sentence = line.text.strip()
            length = len(sentence.split())
            count, tokens = count + 1, tokens + length
            if problem := _problem(line.key or "", sentence, length):
                raise ElmoError(problem, where=line.where, line=line.line_number)
            if line.key is not None:
                has_keys = True
                sentence = f"{line.key}{END_OF_KEY}{sentence}"
            encoded = sentence.encode() + b"\n"
            file.write(encoded)
            digest.update(encoded)
    return Corpus(
        path=folder / TEXT, lines=count, tokens=tokens, digest=digest.hexdigest(), has_keys=has_keys
    )


def _problem(key: str, sentence: str, length: int) -> str:
    if length > MAX_TOKENS:
        return f"{length:,} tokens are more than the {MAX_TOKENS:,} of a sentence"
    if "\n" in sentence:
        return "a sentence contains a line break"
    if END_OF_KEY in key:
        return f"the key {key!r} contains a NUL"
    try:
        (key + sentence).encode()
    except UnicodeEncodeError as error:
        return f"{error.object[error.start]!a} is not a character of UTF-8"
    return ""
