"""Sentences with entity tags in columns: CoNLL 2003, W-NUT and similar files."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, MetadataField

from elmo_tasks.common.values import Name
from elmo_tasks.data.fields import Metadata, TagField
from elmo_tasks.data.formats.columns import ColumnLayout, line_groups
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
from elmo_tasks.data.tokenization import Words, join_words

logger = logging.getLogger(__name__)

_WORD, _TAG = "word", "tag"
_SEPARATORS = ("-DOCSTART-",)
_SCHEME, _ENTITY = "scheme ", "entity "
"""Prefixes of tag schemes, and of types of entities, among the counts of a file."""
_MISPLACED = "B- tags read as I-"


@dataclass
class NerSentence(Metadata):
    """The metadata of an instance: its words, and their characters `[start, end)` in the text."""

    words: list[str]
    text: str
    offsets: list[tuple[int, int]]
    gold_tags: list[str] | None = None
    """The tags in IOB2, if the sentence is tagged."""

    def __len__(self) -> int:
        return len(self.words)


@DatasetReader.register("elmo_ner")
class NerReader(TaskReader):
    """
    Reads one token a line, its columns separated by blanks, with an empty line between sentences. Lines that
    begin with `-DOCSTART-` separate documents and are not tokens.

    Format: https://www.clips.uantwerpen.be/conll2003/ner/. Instances have `tokens`, `metadata` (a
    `NerSentence`) and, if the sentence is tagged, `tags` (BIOUL).

    # Parameters

    columns : names of the columns in order: `word` and `tag` once each; all others are ignored.
    delimiter : text between two columns; by default any run of blanks and tabs.
    tag_scheme : IOB1, IOB2, BIOES, BIOUL, or `auto`, which detects the scheme of each file.
    strict : whether to refuse a `B-` that IOB1 does not allow, such as two after `O` in copies of CoNLL 2003.
        Otherwise it opens an entity, as in all schemes; such tags are counted, and a warning names the first
        one of a file.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: impossible columns, delimiter or scheme. When reading, `InputError` with file and
    line: no file, no sentence in a file, not UTF-8, a wrong number of columns, an empty word, a tag that does
    not exist, and a tag that the scheme does not have, or not in this place.
    """

    def __init__(
        self,
        *,
        columns: Sequence[Name] = (_WORD, "pos", "chunk", _TAG),
        delimiter: Optional[Name] = None,
        tag_scheme: Literal["auto", "IOB1", "IOB2", "BIOES", "BIOUL"] = "auto",
        strict: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.columns = ColumnLayout(columns, delimiter, needed=(_WORD, _TAG))
        self.strict = strict
        self.scheme = None if tag_scheme == "auto" else Scheme(tag_scheme)

    def _read(self, file_path: str) -> Iterator[Instance]:
        for words, spans in self.shard_iterable(self.read_files(file_path, self._file, _describe)):
            yield _instance(join_words(words), spans)

    def allennlp_instance(self, tokens: list[Token]) -> Instance:
        """See `TaskReader`."""
        return self.text_to_instance([token.text for token in tokens])

    def text_to_instance(
        self,
        words: list[str],
        tags: Optional[list[str]] = None,
        *,
        text: Optional[str] = None,
        offsets: Optional[list[tuple[int, int]]] = None,
    ) -> Instance:
        """
        Returns the instance of one sentence; without `tags` for prediction.

        `text` and `offsets` (characters `[start, end)` of each word in it) go together; by default the text
        is the words joined by blanks.

        # Raises
        `ConfigurationError`: no words, other numbers of tags or offsets than words, only one of `text` and
        `offsets`. `TagError` and `MixedSchemeError`: impossible tags.
        """
        if (text is None) != (offsets is None):
            raise ConfigurationError("found only one of text and offsets, expected both or neither")
        content = join_words(words) if text is None or offsets is None else Words(text, words, offsets)
        check_words(words, tags=tags, offsets=content.offsets)
        if tags is None:
            return _instance(content, None)
        scheme = self.scheme or detect_scheme([tags], strict=self.strict)
        if scheme is Scheme.IOB1 and not self.strict:
            tags, _ = as_iob1(tags)
        return _instance(content, to_spans(tags, scheme))

    def _file(self, path: Path, counts: Counter[str]) -> Iterator[tuple[list[str], list[Span]]]:
        """Yields the words and entities of each sentence, after the whole file is read for its scheme."""
        groups = line_groups(read_lines(path), separators=_SEPARATORS)
        sentences = [self._sentence(path, lines) for lines in groups]
        if not sentences:
            raise InputError.at(path, found="no sentence", expected="at least one")
        try:
            scheme = self.scheme or detect_scheme((each.tags for each in sentences), strict=self.strict)
            if scheme is Scheme.IOB1 and not self.strict:
                sentences = _repair_iob1(path, sentences, counts)
            spans = [to_spans(each.tags, scheme, number) for number, each in enumerate(sentences)]
        except TagError as error:
            line = sentences[error.sentence].lines[error.position]
            raise InputError.at(path, line, found=error.found, expected=error.expected) from error
        except MixedSchemeError as error:
            first, second = error.first, error.second
            first_line, line = (sentences[each.sentence].lines[each.position] for each in (first, second))
            found = f"{second.words}, which only {second.scheme.value} has"
            expected = f"{first.scheme.value}, since line {first_line} has {first.words}"
            raise InputError.at(path, line, found=found, expected=expected) from error
        counts[_SCHEME + scheme.value] = 1
        counts["sentences"] = len(sentences)
        counts["tokens"] = sum(len(sentence.words) for sentence in sentences)
        counts.update(_ENTITY + span.label for row in spans for span in row)
        yield from zip((sentence.words for sentence in sentences), spans, strict=True)

    def _sentence(self, path: Path, lines: list[tuple[int, str]]) -> "_FileSentence":
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


class _FileSentence(NamedTuple):
    """A sentence of a file: words, their tags as in the file, and the line of each word."""

    words: list[str]
    tags: list[str]
    lines: list[int]


def _repair_iob1(path: Path, sentences: list[_FileSentence], counts: Counter[str]) -> list[_FileSentence]:
    """Returns the sentences in IOB1; counts the tags that IOB1 does not allow, and warns of them."""
    repaired, errors = [], []
    for sentence in sentences:
        tags, positions = as_iob1(sentence.tags)
        repaired.append(sentence._replace(tags=tags))
        for position in positions:
            line, found = sentence.lines[position], sentence.tags[position]
            expected = f"{tags[position]} in IOB1, as which it is read"
            errors.append(InputError.at(path, line, found=found, expected=expected))
    if errors:
        logger.warning("%s (such tags in this file: %d)", errors[0], len(errors))
        counts[_MISPLACED] = len(errors)
    return repaired


def _instance(words: Words, spans: list[Span] | None) -> Instance:
    """Returns the instance of words and, for training and evaluation, their entities."""
    tokens = text_field(words)
    sentence = NerSentence(words.words, words.text, words.offsets)
    fields: dict[str, Field] = {"tokens": tokens, "metadata": MetadataField(sentence)}
    if spans is not None:
        fields["tags"] = TagField(from_spans(spans, len(words.words), Scheme.BIOUL), tokens)
        sentence.gold_tags = from_spans(spans, len(words.words), Scheme.IOB2)
    return Instance(fields)


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
