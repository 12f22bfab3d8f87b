"""Sentences with entity tags in columns: CoNLL 2003, W-NUT and the like."""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, TokenIndexer
from allennlp.data.fields import Field, MetadataField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.data.tag_field import TagField
from elmo_tasks.data.tag_schemes import (
    MixedSchemeError,
    Scheme,
    Span,
    TagError,
    detect_scheme,
    from_spans,
    to_spans,
)
from elmo_tasks.data.tokenization import Words, joined
from elmo_tasks.strict_params import StrictParams

logger = logging.getLogger(__name__)

_WORD, _TAG = "word", "tag"
_DOCUMENT_START = "-DOCSTART-"
_BLANKS = " \t"
_RUN = re.compile(f"[{_BLANKS}]+")


@dataclass
class NerSentence:
    """What an instance knows of its sentence beside tensors; no dict, so that nothing walks through it."""

    words: list[str]
    text: str
    offsets: list[tuple[int, int]]
    """The characters `[start, end)` of each word in the text."""
    gold_tags: list[str] | None = None
    """In IOB2; of tagged sentences."""

    def __len__(self) -> int:
        return len(self.words)


class _FileSentence(NamedTuple):
    """A sentence of a file: words, their tags as they stand there, and the lines of both."""

    words: list[str]
    tags: list[str]
    lines: list[int]


@DatasetReader.register("elmo_ner")
class NerReader(StrictParams, DatasetReader):
    """
    One token a line, its columns separated by blanks, an empty line between sentences. Lines that
    begin with `-DOCSTART-` separate documents and are no tokens.

    Format: https://www.clips.uantwerpen.be/conll2003/ner/. Instances have `tokens`,
    `metadata` (a `NerSentence`) and, of tagged sentences, `tags` (BIOUL).

    # Parameters

    token_indexers : as in any AllenNLP reader; by default one id a word, named `tokens`.
    columns : names of the columns in order: `word` and `tag` once each, all others are ignored.
    delimiter : what separates the columns; by default any run of blanks and tabs.
    tag_scheme : IOB1, IOB2, BIOES, BIOUL, or `auto`: found out for each file.
    The others : see `DatasetReader`.

    # Raises
    `ConfigurationError`: impossible columns, delimiter or scheme. When reading, `InputError` with
    file and line: no file, no sentence in a file, not UTF-8, another number of columns, an empty
    word, and a tag that does not exist, not in this scheme or not in this place.
    """

    def __init__(
        self,
        *,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        columns: Sequence[str] = (_WORD, "pos", "chunk", _TAG),
        delimiter: Optional[str] = None,
        tag_scheme: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(manual_distributed_sharding=True, manual_multiprocess_sharding=True, **kwargs)
        _check_columns(columns)
        if delimiter == "":
            raise ConfigurationError("delimiter: found '', expected a string such as a tab, or null")
        self.token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self.columns = tuple(columns)
        self.delimiter = delimiter
        self.scheme = _scheme(tag_scheme)

    def _read(self, file_path: str) -> Iterator[Instance]:
        for words, spans in self.shard_iterable(self._sentences(file_path)):
            yield _instance(joined(words), spans)

    def text_to_instance(
        self,
        words: list[str],
        tags: Optional[list[str]] = None,
        *,
        text: Optional[str] = None,
        offsets: Optional[list[tuple[int, int]]] = None,
    ) -> Instance:
        """
        The instance of one sentence; without `tags` for prediction.

        `text` and `offsets` (characters `[start, end)` of each word in it) go together; without
        them the text is the words with blanks between them.

        # Raises
        `ConfigurationError`: no words, other numbers of tags or offsets than words, only one of
        `text` and `offsets`. `TagError` and `MixedSchemeError`: impossible tags.
        """
        if (text is None) != (offsets is None):
            raise ConfigurationError("found only one of text and offsets, expected both or neither")
        placed = joined(words) if text is None or offsets is None else Words(text, words, offsets)
        _check_lengths(words, tags, placed.offsets)
        spans = None if tags is None else to_spans(tags, self.scheme or detect_scheme([tags]))
        return _instance(placed, spans)

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["tokens"].token_indexers = self.token_indexers

    def _sentences(self, file_path: str) -> Iterator[tuple[list[str], list[Span]]]:
        """Words and entities of all files, checked; a file is read as a whole, to find its scheme."""
        total = _Summary()
        paths = input_files(file_path)
        for path in paths:
            sentences = list(self._parse(path))
            if not sentences:
                raise InputError.at(path, found="no sentence", expected="at least one")
            scheme = self.scheme or _detect_scheme(path, sentences)
            spans = [_spans(path, sentence, scheme) for sentence in sentences]
            summary = _Summary.of(sentences, spans)
            logger.info("%s: %s, %s", path, scheme.value, summary)
            total.add(summary)
            yield from zip((sentence.words for sentence in sentences), spans, strict=True)
        if len(paths) > 1:
            logger.info("%s: %d files, %s", file_path, len(paths), total)

    def _parse(self, path: Path) -> Iterator[_FileSentence]:
        sentence = _FileSentence([], [], [])
        for number, line in read_lines(path):
            if line.strip(_BLANKS) and not line.startswith(_DOCUMENT_START):
                word, tag = self._word_and_tag(path, number, line)
                sentence.words.append(word)
                sentence.tags.append(tag)
                sentence.lines.append(number)
            elif sentence.words:
                yield sentence
                sentence = _FileSentence([], [], [])
        if sentence.words:
            yield sentence

    def _word_and_tag(self, path: Path, number: int, line: str) -> tuple[str, str]:
        fields = line.split(self.delimiter) if self.delimiter else _RUN.split(line.strip(_BLANKS))
        if len(fields) != len(self.columns):
            names = ", ".join(self.columns)
            raise InputError.at(
                path,
                number,
                found=f"{len(fields)} columns in {line[:80]!r}",
                expected=f"{len(self.columns)}: {names}",
            )
        word, tag = (fields[self.columns.index(name)] for name in (_WORD, _TAG))
        if not word:
            raise InputError.at(path, number, found="an empty word", expected="a word")
        return word, tag


@dataclass
class _Summary:
    """What was read, for the log."""

    sentences: int = 0
    tokens: int = 0
    entities: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, sentences: list[_FileSentence], spans: list[list[Span]]) -> "_Summary":
        tokens = sum(len(sentence.words) for sentence in sentences)
        return cls(len(sentences), tokens, Counter(span.label for row in spans for span in row))

    def add(self, other: "_Summary") -> None:
        self.sentences += other.sentences
        self.tokens += other.tokens
        self.entities += other.entities

    def __str__(self) -> str:
        types = ", ".join(f"{label} {count}" for label, count in sorted(self.entities.items()))
        return f"{self.sentences} sentences, {self.tokens} tokens, {self.entities.total()} entities" + (
            f" ({types})" if types else ""
        )


def _instance(words: Words, spans: list[Span] | None) -> Instance:
    """Of words and, for training and evaluation, their entities."""
    tokens = TextField(
        [
            Token(word, idx=start, idx_end=end)
            for word, (start, end) in zip(words.words, words.offsets, strict=True)
        ]
    )
    sentence = NerSentence(words.words, words.text, words.offsets)
    fields: dict[str, Field] = {"tokens": tokens, "metadata": MetadataField(sentence)}
    if spans is not None:
        fields["tags"] = TagField(from_spans(spans, len(sentence), Scheme.BIOUL), tokens)
        sentence.gold_tags = from_spans(spans, len(sentence), Scheme.IOB2)
    return Instance(fields)


def _spans(path: Path, sentence: _FileSentence, scheme: Scheme) -> list[Span]:
    """The entities; every tag must have its place in the scheme."""
    try:
        return to_spans(sentence.tags, scheme)
    except TagError as error:
        line = sentence.lines[error.position]
        raise InputError.at(path, line, found=error.found, expected=error.expected) from error


def _detect_scheme(path: Path, sentences: list[_FileSentence]) -> Scheme:
    try:
        return detect_scheme(sentence.tags for sentence in sentences)
    except TagError as error:
        line = sentences[error.sentence].lines[error.position]
        raise InputError.at(path, line, found=error.found, expected=error.expected) from error
    except MixedSchemeError as error:
        first, second = error.first, error.second
        lines = [sentences[e.sentence].lines[e.position] for e in (first, second)]
        raise InputError.at(
            path,
            lines[1],
            found=f"{second.words}, which only {second.scheme.value} has",
            expected=f"{first.scheme.value}, since line {lines[0]} has {first.words}",
        ) from error


def _scheme(name: str) -> Scheme | None:
    names = [scheme.value for scheme in Scheme]
    if name not in ("auto", *names):
        known = ", ".join(names)
        raise ConfigurationError(f"tag_scheme: found {name!r}, expected auto or one of {known}")
    return None if name == "auto" else Scheme(name)


def _check_columns(columns: Sequence[str]) -> None:
    if isinstance(columns, str) or any(list(columns).count(name) != 1 for name in (_WORD, _TAG)):
        raise ConfigurationError(
            f"columns: found {columns!r}, expected a list of names with {_WORD!r} and {_TAG!r} once each"
        )


def _check_lengths(words: list[str], tags: list[str] | None, offsets: list) -> None:
    if not words:
        raise ConfigurationError("found no words, expected at least one")
    for name, values in (("tags", tags), ("offsets", offsets)):
        if values is not None and len(values) != len(words):
            raise ConfigurationError(f"found {len(values)} {name}, expected {len(words)}")
