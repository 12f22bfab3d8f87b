"""Sentences with entity tags in columns: CoNLL 2003, W-NUT and the like."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import Field, MetadataField

from elmo_tasks.common.values import Name, OneOf
from elmo_tasks.data.columns import ColumnLayout, line_groups
from elmo_tasks.data.fields import Metadata, TagField
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.reader import TaskReader, check_words, text_field
from elmo_tasks.data.tag_schemes import (
    MixedSchemeError,
    Scheme,
    Span,
    TagError,
    as_iob1,
    detect_scheme,
    from_spans,
    to_spans,
)
from elmo_tasks.data.tokenization import Words, joined

logger = logging.getLogger(__name__)

_WORD, _TAG = "word", "tag"
_SEPARATORS = ("-DOCSTART-",)
_SCHEMES = ("auto", *(scheme.value for scheme in Scheme))
_SCHEME, _ENTITY = "scheme ", "entity "
"""What stands before tag schemes, and before types of entities, among the counts of what was read."""
_MISPLACED = "B- tags read as I-"


@dataclass
class NerSentence(Metadata):
    """What an instance knows of its sentence beside tensors."""

    words: list[str]
    text: str
    offsets: list[tuple[int, int]]
    """The characters `[start, end)` of each word in the text."""
    gold_tags: list[str] | None = None
    """The tags in IOB2; only of tagged sentences."""

    def __len__(self) -> int:
        return len(self.words)


class _FileSentence(NamedTuple):
    """A sentence of a file: words, their tags as they stand there, and the lines of both."""

    words: list[str]
    tags: list[str]
    lines: list[int]


@DatasetReader.register("elmo_ner")
class NerReader(TaskReader):
    """
    One token a line, its columns separated by blanks, an empty line between sentences. Lines that
    begin with `-DOCSTART-` separate documents and are no tokens.

    Format: https://www.clips.uantwerpen.be/conll2003/ner/. Instances have `tokens`,
    `metadata` (a `NerSentence`) and, of tagged sentences, `tags` (BIOUL).

    # Parameters

    columns : names of the columns in order: `word` and `tag` once each, all others are ignored.
    delimiter : what separates the columns; by default any run of blanks and tabs.
    tag_scheme : IOB1, IOB2, BIOES, BIOUL, or `auto`: found out for each file.
    strict : whether a `B-` is refused that IOB1 has no place for, such as two after `O` in copies of CoNLL
        2003. Otherwise it opens an entity, as it does in all schemes; such tags are counted, and a warning
        names the first of a file.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: impossible columns, delimiter or scheme. When reading, `InputError` with
    file and line: no file, no sentence in a file, not UTF-8, another number of columns, an empty
    word, and a tag that does not exist, not in this scheme or not in this place.
    """

    def __init__(
        self,
        *,
        columns: Sequence[Name] = (_WORD, "pos", "chunk", _TAG),
        delimiter: Optional[Name] = None,
        tag_scheme: Annotated[str, OneOf(_SCHEMES)] = "auto",
        strict: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.columns = ColumnLayout(columns, delimiter, needed=(_WORD, _TAG))
        self.strict = strict
        self.scheme = None if tag_scheme == "auto" else Scheme(tag_scheme)

    def _read(self, file_path: str) -> Iterator[Instance]:
        for words, spans in self.shard_iterable(self.counted(file_path, self._file, _describe)):
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
        check_words(words, tags=tags, offsets=placed.offsets)
        if tags is None:
            return _instance(placed, None)
        scheme = self.scheme or detect_scheme([tags], strict=self.strict)
        if self._mends(scheme):
            tags, _ = as_iob1(tags)
        return _instance(placed, to_spans(tags, scheme))

    def _mends(self, scheme: Scheme) -> bool:
        return scheme is Scheme.IOB1 and not self.strict

    def _file(self, path: Path, counts: Counter[str]) -> Iterator[tuple[list[str], list[Span]]]:
        """The words and entities of a file, which is read as a whole, to find its scheme."""
        groups = line_groups(read_lines(path), separators=_SEPARATORS)
        sentences = [self._sentence(path, lines) for lines in groups]
        if not sentences:
            raise InputError.at(path, found="no sentence", expected="at least one")
        scheme = self.scheme or _detect_scheme(path, sentences, strict=self.strict)
        if self._mends(scheme):
            sentences = _mended(path, sentences, counts)
        spans = [_spans(path, sentence, scheme) for sentence in sentences]
        counts[_SCHEME + scheme.value] = 1
        counts["sentences"] = len(sentences)
        counts["tokens"] = sum(len(sentence.words) for sentence in sentences)
        counts.update(_ENTITY + span.label for row in spans for span in row)
        yield from zip((sentence.words for sentence in sentences), spans, strict=True)

    def _sentence(self, path: Path, lines: list[tuple[int, str]]) -> _FileSentence:
        words, tags = zip(*(self._word_and_tag(path, number, line) for number, line in lines), strict=True)
        return _FileSentence(list(words), list(tags), [number for number, _ in lines])

    def _word_and_tag(self, path: Path, number: int, line: str) -> tuple[str, str]:
        names, cells = self.columns.names, self.columns.split(line)
        if len(cells) != len(names):
            found, expected = f"{len(cells)} columns in {line[:80]!r}", f"{len(names)}: {', '.join(names)}"
            raise InputError.at(path, number, found=found, expected=expected)
        word, tag = (cells[names.index(name)] for name in (_WORD, _TAG))
        if not word:
            raise InputError.at(path, number, found="an empty word", expected="a word")
        return word, tag


def _describe(counts: Counter[str]) -> str:
    schemes, entities = (
        Counter({name.removeprefix(kind): counts[name] for name in sorted(counts) if name.startswith(kind)})
        for kind in (_SCHEME, _ENTITY)
    )
    # Several files may differ in their schemes.
    scheme = f"{next(iter(schemes))}, " if schemes.total() == 1 else ""
    types = ", ".join(f"{label} {count}" for label, count in entities.items())
    return (
        f"{scheme}{counts['sentences']} sentences, {counts['tokens']} tokens, {entities.total()} entities"
        + (f" ({types})" if types else "")
        + (f"; {counts[_MISPLACED]} {_MISPLACED}" if counts[_MISPLACED] else "")
    )


def _mended(path: Path, sentences: list[_FileSentence], counts: Counter[str]) -> list[_FileSentence]:
    """The sentences in IOB1; counts the tags that were not, and warns of them."""
    mended, errors = [], []
    for sentence in sentences:
        tags, places = as_iob1(sentence.tags)
        mended.append(sentence._replace(tags=tags))
        for place in places:
            found, expected = sentence.tags[place], f"{tags[place]} in IOB1, as which it is read"
            errors.append(InputError.at(path, sentence.lines[place], found=found, expected=expected))
    if errors:
        logger.warning("%s (such tags in this file: %d)", errors[0], len(errors))
        counts[_MISPLACED] = len(errors)
    return mended


def _instance(words: Words, spans: list[Span] | None) -> Instance:
    """The instance of words and, for training and evaluation, their entities."""
    tokens = text_field(words)
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


def _detect_scheme(path: Path, sentences: list[_FileSentence], *, strict: bool) -> Scheme:
    try:
        return detect_scheme((sentence.tags for sentence in sentences), strict=strict)
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
