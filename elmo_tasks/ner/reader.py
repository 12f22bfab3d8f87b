"""Sentences with entities, from files of many formats: CoNLL 2003, JSON Lines, Parquet and others."""

import json
import logging
import shlex
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Optional, TypeVar

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, MetadataField

from elmo_tasks.common.values import Name, Names
from elmo_tasks.data.fields import Metadata, TagField, no_prediction
from elmo_tasks.data.formats.base import FileSample, sample_of
from elmo_tasks.data.formats.columns import ColumnLayout, gold_files
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.reader import TaskReader, check_words, text_field
from elmo_tasks.data.tag_schemes import (
    MixedSchemeError,
    Scheme,
    Span,
    Spelling,
    TagError,
    detect_scheme,
    from_brackets,
    from_spans,
    has_brackets,
    repaired,
    spelled,
    to_spans,
)
from elmo_tasks.data.tokenization import Words, join_words, tokenizer_of_script
from elmo_tasks.ner.sentences import (
    CONLL_2003,
    TAG,
    WORD,
    CharacterSpan,
    FileSentence,
    NerFormat,
    Settings,
    column_keys,
    found_columns,
    found_format,
    read_sentences,
    unsplit_text,
    without_companions,
)

logger = logging.getLogger(__name__)

_Example = tuple[FileSentence, list[Span] | None]
Made = TypeVar("Made")
_SCHEME, _ENTITY, _ODD = "scheme ", "entity ", "odd "
"""Prefixes of tag schemes, of types of entities, and of what is odd, among the counts of a file."""
_SPELLINGS = {"BMES": Scheme.BIOES, "IO": Scheme.IOB1}
_NO_TAG = ("_", "")
"""The cells in place of tags in files for predictions."""
_UNTAGGED = "sentences without tags"
_REJECTED = "records that annotators have rejected left out"
_CUT = "spans that begin or end within a token"
_OVERLAPS = "spans that overlap another left out"


@dataclass
class NerSentence(Metadata):
    """The metadata of an instance: its words, and their characters `[start, end)` in the text."""

    words: list[str]
    text: str
    offsets: list[tuple[int, int]]
    gold_tags: list[str] | None = None

    def __len__(self) -> int:
        return len(self.words)


@DatasetReader.register("elmo_ner")
class NerReader(TaskReader):
    """
    Reads sentences with entities, in any format of `ner.sentences`. In columns a line is a token, an empty
    line ends a sentence, and lines that begin with `-DOCSTART-` separate documents.

    Columns: https://www.clips.uantwerpen.be/conll2003/ner/. Instances have `tokens`, `metadata` (a
    `NerSentence`) and, if the sentence is tagged, `tags` (BIOUL).

    # Parameters

    format : of the files, see `ner.sentences`; `auto` finds the format of each file.
    columns : names of the columns in order: `word` and `tag` once each; all others are ignored.
    delimiter : text between two columns; by default any run of blanks and tabs.
    comments : the start of lines that are comments, see `ColumnLayout`; null: there are none.
    tag_scheme : IOB1, IOB2, BIOES, BIOUL, BMES, IO (types without a prefix), or `auto`, which detects the
        scheme of each file.
    tag_names : the name of each tag, for files of JSON or Parquet with numbers in place of tags. Parquet may
        name them itself.
    strict : whether to refuse what is mended otherwise: a `B-` that IOB1 does not allow, such as two after
        `O` in copies of CoNLL 2003; an `I-` that opens an entity in IOB2, as in CoNLL 2002; a span that cuts
        a token, which becomes the whole token; and a span that overlaps a longer one, which is left out. They
        are counted, and a warning names the first of a file.
    skip_bad : whether to leave out sentences with an error; they are counted, and a warning has the first.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: impossible columns, delimiter or scheme. When reading, `InputError` with file and
    line: no file, no sentence in a file, another encoding, a wrong number of columns, an empty word, a tag
    that does not exist, and a tag that the scheme does not have, or not at this position.
    """

    def __init__(
        self,
        *,
        format: NerFormat = "auto",
        columns: Sequence[Name] = CONLL_2003,
        delimiter: Optional[Name] = None,
        comments: Optional[Name] = "auto",
        tag_scheme: Literal["auto", "IOB1", "IOB2", "BIOES", "BIOUL", "BMES", "IO"] = "auto",
        tag_names: Optional[Names] = None,
        strict: bool = False,
        skip_bad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.format = format
        self.columns = ColumnLayout(columns, delimiter, needed=(WORD, TAG), comments=comments)
        self.tag_names = tag_names
        self.strict = strict
        self.skip_bad = skip_bad
        self.tag_scheme = tag_scheme

    @property
    def settings(self) -> Settings:
        """The settings for `read_sentences`."""
        return Settings(self.columns, self.split, self.tag_names, self.encoding, self.every_record)

    def _read(self, file_path: str) -> Iterator[Instance]:
        paths = without_companions(gold_files(file_path))
        for example in self.shard_iterable(self.read_files(file_path, self._file, _describe, paths)):
            if isinstance(example, InputError):
                yield no_prediction(example)
            else:
                sentence, spans = example
                yield _instance(sentence.content, spans, sentence.ids)

    @classmethod
    def candidates(cls, sample: FileSample) -> Iterator[dict[str, Any]]:
        """
        Yields the keys; in columns, tags are where `O` is, and words in the first other text. Texts in
        scripts without blanks need a tokenizer.
        """
        format = cls(encoding=sample.encoding).format_of(sample.files)
        if format == "columns":
            yield from column_keys(sample.lines)
        else:
            tokenizer = tokenizer_of_script(unsplit_text(sample.files[0], format, sample.encoding))
            yield {} if tokenizer is None else {"tokenizer": tokenizer}

    def format_of(self, files: Sequence[Path]) -> str:
        paths = without_companions(gold_files(list(map(str, files))))
        return found_format(paths[0], self.settings) if self.format == "auto" else self.format

    def allennlp_instance(self, tokens: list[Token]) -> Instance:
        return self.text_to_instance([token.text for token in tokens])

    def text_to_instance(
        self,
        words: list[str],
        tags: list[str] | None = None,
        *,
        text: str | None = None,
        offsets: list[tuple[int, int]] | None = None,
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
        spelling = spelled(set(tags), self.tag_scheme)
        tags = [spelling.tags.get(tag, tag) for tag in tags]
        return _instance(content, self._spans(tags, self._scheme([tags]))[0])

    def _file(self, path: Path, counts: Counter[str]) -> Iterator[_Example | InputError]:
        """Yields the sentences with their entities, after the whole file is read for its scheme."""
        settings = self.settings
        format = found_format(path, settings) if self.format == "auto" else self.format
        try:
            made = list(self.valid_examples(path, read_sentences(path, format, settings)))
        except InputError as error:
            if format == "columns":
                self._add_remedy(error, path)
            raise
        sentences = [each for each in made if isinstance(each, FileSentence)]
        if made.count(None) == len(made):
            raise InputError.at(path, found="no sentence", expected="at least one")
        counts[_ODD + _REJECTED] = made.count(None)
        if self.every_record:
            counts["sentences"] = len(made)
            counts["tokens"] = sum(len(sentence.words) for sentence in sentences)
            yield from ((each, None) if isinstance(each, FileSentence) else each for each in made if each)
            return
        oddities = _Oddities(path, counts, strict=self.strict)
        examples = self._with_entities(path, sentences, oddities)
        oddities.warn()
        counts["sentences"] = len(examples)
        counts["tokens"] = sum(len(sentence.words) for sentence, _ in examples)
        counts.update(_ENTITY + span.label for _, row in examples for span in row or ())
        yield from examples

    def _add_remedy(self, error: InputError, path: Path) -> None:
        """Tells the keys for the columns of a file that has another number of them."""
        for names, delimiter in islice(found_columns(sample_of(str(path)).lines), 1):
            if len(names) != len(self.columns.names):
                keys: dict[str, Any] = {"dataset_reader.columns": names}
                if delimiter != self.columns.delimiter:
                    keys["dataset_reader.delimiter"] = delimiter
                error.add_note(f"for these columns: --overrides {shlex.quote(json.dumps(keys))}")

    def _with_entities(
        self, path: Path, sentences: list[FileSentence], oddities: "_Oddities"
    ) -> list[_Example]:
        if all(tag in _NO_TAG for sentence in sentences for tag in sentence.tags or ()):
            for sentence in sentences:
                sentence.tags = None
        first = next((sentence for sentence in sentences if sentence.tagged), None)
        if first is None:
            oddities.counts[_ODD + _UNTAGGED] = len(sentences)
            logger.warning("%s: found no tags, expected some: such files are for predictions alone", path)
            return [(sentence, None) for sentence in sentences]
        sentences = self._valid(path, (partial(_annotated_like, path, each, first) for each in sentences))
        if first.tags is not None:
            return self._with_tags(path, sentences, oddities)
        return self._valid(path, (partial(_with_spans, each, oddities) for each in sentences))

    def _valid(self, path: Path, records: Iterable[Callable[[], Made]]) -> list[Made]:
        return [each for each in self.valid_examples(path, records) if not isinstance(each, InputError)]

    def _with_tags(self, path: Path, sentences: list[FileSentence], oddities: "_Oddities") -> list[_Example]:
        tags = {tag for sentence in sentences for tag in sentence.tags or ()}
        brackets, spelling = has_brackets(tags), spelled(tags, self.tag_scheme)
        if brackets and tags <= {"*", "-"}:
            logger.warning("%s: found no entity, expected brackets such as (PERSON*", path)
        if brackets or spelling.tags or self.skip_bad:
            normal = (partial(_normalised, path, each, brackets, spelling) for each in sentences)
            sentences = self._valid(path, normal)
        try:
            scheme = Scheme.IOB2 if brackets else self._scheme([each.tags or [] for each in sentences])
        except TagError as error:
            sentence = sentences[error.sentence]
            if error.sentence == error.position == 0 and len(sentence.lines) == len(sentence.words):
                error.expected += ", or a header with names such as word and tag"
            raise _input_error(path, sentence, error) from error
        except MixedSchemeError as error:
            first, second = error.first, error.second
            first_line, line = (sentences[each.sentence].line(each.position) for each in (first, second))
            found = f"{second.words}, which only {second.scheme.value} has"
            expected = f"{first.scheme.value}, since line {first_line} has {first.words}"
            raise InputError.at(path, line, found=found, expected=expected) from error
        oddities.counts[_SCHEME + (spelling.scheme or scheme.value)] = 1
        return self._valid(path, (partial(self._with_spans_of, each, scheme, oddities) for each in sentences))

    def _with_spans_of(self, sentence: FileSentence, scheme: Scheme, oddities: "_Oddities") -> _Example:
        tags = sentence.tags or []
        try:
            spans, positions = self._spans(tags, scheme)
        except TagError as error:
            raise _input_error(oddities.path, sentence, error) from error
        wrong, right = ("B", "I") if scheme is Scheme.IOB1 else ("I", "B")
        for position in positions:
            expected = f"{right}{tags[position][1:]} in {scheme.value}, as which it is read"
            oddities.add(f"{wrong}- tags read as {right}-", sentence.line(position), tags[position], expected)
        return sentence, spans

    def _scheme(self, sentences: list[list[str]]) -> Scheme:
        if self.tag_scheme == "auto":
            return detect_scheme(sentences, strict=self.strict)
        return _SPELLINGS.get(self.tag_scheme) or Scheme(self.tag_scheme)

    def _spans(self, tags: list[str], scheme: Scheme) -> tuple[list[Span], list[int]]:
        """Returns the entities of a sentence, and the positions of the tags that are mended."""
        try:
            return to_spans(tags, scheme), []
        except TagError:
            if self.strict or scheme not in (Scheme.IOB1, Scheme.IOB2):
                raise
        tags, positions = repaired(tags, scheme)
        return to_spans(tags, scheme), positions


class _Oddities:
    """Oddities of a file that are read nevertheless: their counts, and the first of each kind."""

    def __init__(self, path: Path, counts: Counter[str], *, strict: bool) -> None:
        self.path, self.counts, self.strict = path, counts, strict
        self._first: dict[str, InputError] = {}

    def add(self, kind: str, line: int, found: str, expected: str) -> None:
        error = InputError.at(self.path, line, found=found, expected=expected)
        if self.strict:
            raise error
        self._first.setdefault(kind, error)
        self.counts[_ODD + kind] += 1

    def warn(self) -> None:
        for kind, error in self._first.items():
            logger.warning("%s (%s in this file: %d)", error, kind, self.counts[_ODD + kind])


def _annotated_like(path: Path, sentence: FileSentence, first: FileSentence) -> FileSentence:
    if not sentence.tagged:
        expected = f"some, as in line {first.line()}"
        raise InputError.at(path, sentence.line(), found="no tags", expected=expected)
    if (sentence.tags is None) is not (first.tags is None):
        found, other = ("tags", "spans") if first.tags is None else ("spans", "tags")
        expected = f"{other}, as in line {first.line()}"
        raise InputError.at(path, sentence.line(), found=found, expected=expected)
    return sentence


def _normalised(path: Path, sentence: FileSentence, brackets: bool, spelling: Spelling) -> FileSentence:
    """Returns the sentence with tags as this project spells them, all of which exist in some scheme."""
    tags = sentence.tags or []
    try:
        tags = from_brackets(tags) if brackets else [spelling.tags.get(tag, tag) for tag in tags]
        with suppress(MixedSchemeError):
            detect_scheme([tags])
    except TagError as error:
        raise _input_error(path, sentence, error) from error
    return replace(sentence, tags=tags)


def _input_error(path: Path, sentence: FileSentence, error: TagError) -> InputError:
    return InputError.at(path, sentence.line(error.position), found=error.found, expected=error.expected)


def _with_spans(sentence: FileSentence, oddities: _Oddities) -> _Example:
    """Returns a sentence and those of its spans that do not overlap a longer one."""
    spans = sentence.spans
    if spans is None:
        spans = [_tokens_of(sentence, span, oddities) for span in sentence.characters or ()]
    taken: list[Span] = []
    for span in sorted(set(spans), key=lambda span: (span.start - span.end, span)):
        if other := next((each for each in taken if span.start < each.end and each.start < span.end), None):
            expected = f"no overlap with {_shown(sentence, other)}"
            oddities.add(_OVERLAPS, sentence.line(span.start), _shown(sentence, span), expected)
        else:
            taken.append(span)
    return sentence, sorted(taken)


def _shown(sentence: FileSentence, span: Span) -> str:
    return f"{' '.join(sentence.words[span.start : span.end])!r} ({span.label})"


def _tokens_of(sentence: FileSentence, span: CharacterSpan, oddities: _Oddities) -> Span:
    """Returns the tokens of a span of characters; white space at its ends does not count."""
    text, words, offsets = sentence.content
    characters = text[span.start : span.end]
    start = span.end - len(characters.lstrip())
    end = span.start + len(characters.rstrip())
    first = bisect_right([token_end for _, token_end in offsets], start)
    last = bisect_left([token_start for token_start, _ in offsets], end) - 1
    if first > last:
        found = f"{characters!r} ({span.label}) between two tokens"
        raise InputError.at(oddities.path, sentence.line(), found=found, expected="a span with a token")
    if (offsets[first][0], offsets[last][1]) != (start, end):
        expected = f"whole tokens, {' '.join(words[first : last + 1])!r}, as which it is read"
        oddities.add(_CUT, sentence.line(first), f"{characters!r} ({span.label})", expected)
    return Span(first, last + 1, span.label)


def _instance(words: Words, spans: list[Span] | None, ids: Mapping[str, Any] | None = None) -> Instance:
    """Returns the instance of words and, for training and evaluation, their entities."""
    tokens = text_field(words)
    sentence = NerSentence(words.words, words.text, words.offsets)
    if ids:
        sentence.ids = ids
    fields: dict[str, Field] = {"tokens": tokens, "metadata": MetadataField(sentence)}
    if spans is not None:
        fields["tags"] = TagField(from_spans(spans, len(words.words), Scheme.BIOUL), tokens)
        sentence.gold_tags = from_spans(spans, len(words.words), Scheme.IOB2)
    return Instance(fields)


def _describe(counts: Counter[str]) -> str:
    schemes, entities, odd = (
        Counter({name.removeprefix(kind): counts[name] for name in sorted(counts) if name.startswith(kind)})
        for kind in (_SCHEME, _ENTITY, _ODD)
    )
    # Several files may differ in their schemes.
    scheme = f"{next(iter(schemes))}, " if schemes.total() == 1 else ""
    types = ", ".join(f"{label} {count}" for label, count in entities.items())
    return (
        f"{scheme}{counts['sentences']} sentences, {counts['tokens']} tokens, {entities.total()} entities"
        + (f" ({types})" if types else "")
        + "".join(f"; {count} {kind}" for kind, count in odd.items() if count)
    )
