"""Sentences with entities, from files of many formats: CoNLL 2003, JSON Lines, Parquet and others."""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, MetadataField

from elmo_tasks.common.files import local_or_bundled
from elmo_tasks.common.values import Name, Names, OneOf
from elmo_tasks.data.fields import Metadata, TagField
from elmo_tasks.data.formats import Finding, Fit, Format, best_format
from elmo_tasks.data.formats.annotations import unsplit_text
from elmo_tasks.data.formats.columns import (
    CONLL_2003,
    TAG,
    WORD,
    ColumnLayout,
    EntityOptions,
    EntitySentence,
    find_columns,
    gold_files,
    problem_of_columns,
)
from elmo_tasks.data.formats.entities import COMPANIONS, FORMATS, columns_by_name
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.reader import TaskReader, check_words, join_words, text_field
from elmo_tasks.data.tag_schemes import MixedSchemeError, Scheme, Span, TagError, TagReader, from_spans
from elmo_tasks.data.tally import Tally
from elmo_tasks.data.tokenization import Words, tokenizer_of_script
from elmo_tasks.ner.reading import as_read

logger = logging.getLogger(__name__)

_Record = EntitySentence | InputError | str
_Example = tuple[EntitySentence, list[Span] | None]
_NOTHING = "no tags"
_WIDE = 10
"""The columns of CoNLL-U; other files may have as many."""


@cache
def read_ranks(path: str) -> dict[str, int]:
    """Reads a vocabulary, a word a line, the most frequent first."""
    lines = read_lines(local_or_bundled(path))
    return {word: rank for rank, (_, word) in reversed(list(enumerate(lines)))}


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
    Reads sentences with entities, in any format of docs/data.md; by default the columns of
    https://www.clips.uantwerpen.be/conll2003/ner/. Instances have `tokens`, `metadata` (a `NerSentence`) and,
    if the sentence is tagged, `tags` (BIOUL).

    # Parameters

    format : of the files, see docs/ner.md; `auto` finds the format of each file.
    columns : names of the columns in order: `word` and `tag` once each; all others are ignored.
    delimiter : text between two columns; by default any run of blanks and tabs.
    comments : the start of lines that are comments, see `ColumnLayout`; null: there are none.
    tag_scheme : IOB1, IOB2, BIOES, BIOUL, BMES, IO (types without a prefix), or `auto`, which detects the
        scheme of each file.
    tag_names : the name of each tag, for files of JSON or Parquet with numbers in place of tags. Parquet may
        name them itself.
    strict : whether oddities, which otherwise are counted, are errors: a `B-` that IOB1 does not allow, or an
        `I-` that opens an entity in IOB2; a span that cuts a token, which becomes the whole token; and a span
        that overlaps a longer one, which is left out.
    case_vocabulary : file of words, the most frequent first. By it, the model reads the words of a sentence
        without a small letter in their usual case, see `as_read`; in answers they are unchanged.
    The others : see `TaskReader`.
    """

    formats: Sequence[Format] = FORMATS

    def __init__(
        self,
        *,
        format: Annotated[str, OneOf(("auto", *(format.name for format in FORMATS)))] = "auto",
        columns: Sequence[Name] = CONLL_2003,
        delimiter: Optional[Name] = None,
        comments: Optional[Name] = "auto",
        tag_scheme: Literal["auto", "IOB1", "IOB2", "BIOES", "BIOUL", "BMES", "IO"] = "auto",
        tag_names: Optional[Names] = None,
        strict: bool = False,
        case_vocabulary: Optional[Name] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.format = format
        if format == "auto" and len(columns) >= _WIDE:  # ten named columns are not CoNLL-U
            self.formats = [format for format in FORMATS if format.name != "conllu"]
        self.columns = ColumnLayout(columns, delimiter, needed=(WORD, TAG), comments=comments)
        self.tag_names = tag_names
        self.strict = strict
        self.tag_scheme = tag_scheme
        self.ranks = None if case_vocabulary is None else read_ranks(case_vocabulary)

    def examples(self, file_path: str) -> Iterator[_Example | InputError]:
        return self.read_files(file_path, self._file, gold_files(file_path, COMPANIONS))

    def instances(self, example: _Example) -> list[Instance]:
        sentence, spans = example
        return [self._instance(sentence.text or sentence.words, spans, sentence.ids)]

    @classmethod
    def find(cls, sample: Sample) -> Finding:
        """
        Returns the keys; in columns, tags are where `O` is, and words in the first other text. Texts in
        scripts without blanks need a tokenizer.
        """
        format = best_format(cls.formats, sample)
        if format.name == "columns":
            candidates, doubt, names = find_columns(sample)
            fit, problem = format.fit(sample), None
            if fit is Fit.NO and (what := problem_of_columns(sample)):
                fit, problem = Fit.POSSIBLE, InputError(what, where=sample.files[0])
            doubts = list(filter(None, [doubt]))
            return Finding(fit, candidates or [{}], problem, doubts, columns=names)
        tokenizer = None
        if format.name in ("json", "parquet"):
            tokenizer = tokenizer_of_script(unsplit_text(sample.records))
        keys = {} if tokenizer is None else {"tokenizer": tokenizer}
        return Finding(format.fit(sample), [keys], columns=columns_by_name(sample, format.name))

    def format_of(self, files: Sequence[Path]) -> str:
        return self.detected_format(gold_files(list(map(str, files)), COMPANIONS)[0]).name

    def text_to_instance(
        self,
        words: Sequence[str | Token],
        tags: list[str] | None = None,
        *,
        text: str | None = None,
        offsets: list[tuple[int, int]] | None = None,
    ) -> Instance:
        """
        Returns the instance of one sentence; without `tags` for prediction. `text` and `offsets` (characters
        `[start, end)` of each word in it) go together; by default the text is the words joined by blanks.
        No words, other numbers of tags or offsets, and impossible tags (`TagError`) are errors.
        """
        words = [str(word) for word in words]
        content = words if text is None or offsets is None else Words(text, words, offsets)
        check_words(words, tags=tags, offsets=offsets)
        if tags is None:
            return self._instance(content, None)
        reader = TagReader(self.tag_scheme, strict=self.strict)
        reader.find_scheme(tags)
        return self._instance(content, reader.spans(tags, range(1, len(tags) + 1)))

    def _instance(
        self, content: Words | list[str], spans: list[Span] | None, ids: Mapping[str, Any] | None = None
    ) -> Instance:
        words = content if isinstance(content, Words) else join_words(content)
        tokens = text_field(words._replace(words=as_read(words.words, self.ranks)))
        sentence = NerSentence(words.words, words.text, words.offsets)
        if ids:
            sentence.ids = ids
        fields: dict[str, Field] = {"tokens": tokens, "metadata": MetadataField(sentence)}
        if spans is not None:
            fields["tags"] = TagField(from_spans(spans, len(words.words), Scheme.BIOUL), tokens)
            sentence.gold_tags = from_spans(spans, len(words.words), Scheme.IOB2)
        return Instance(fields)

    def _file(self, path: Path, counts: Tally) -> Generator[_Example | InputError]:
        options = EntityOptions(self.columns, self.split, self.tag_names, self.encoding, self.every_record)
        records = self.detected_format(path).read(path, options)
        tags = TagReader(self.tag_scheme, strict=self.strict)
        annotation = _NOTHING
        if not self.every_record:
            records, annotation = _with_annotation(records, tags, path)
        try:
            for number, record in enumerate(records):
                if isinstance(record, str):
                    counts[f"records that annotators have {record} left out"] += 1
                    continue
                spans = None
                if annotation != _NOTHING and isinstance(record, EntitySentence):
                    try:
                        spans = _entities(record, annotation, tags, counts)
                    except TagError as error:
                        line, problem = record.lines[error.position], error.problem
                        if isinstance(error, MixedSchemeError):
                            raise InputError(problem, where=path, line=line) from error
                        if number == error.position == 0 and len({*record.lines}) == len(record.words):
                            problem += "; if the line is a header, its names must be such as word and tag"
                        record = InputError(problem, where=path, line=line)
                    except InputError as error:
                        record = error
                if isinstance(record, InputError):
                    yield record
                    continue
                if spans is None and not self.every_record:
                    counts["sentences without tags"] += 1
                counts["sentences"] += 1
                counts["tokens"] += len(record.words)
                for span in spans or ():
                    counts[f"entities: {span.label}"] += 1
                yield record, spans
        finally:
            _count_scheme(tags, counts)


def _with_annotation(
    records: Iterator[_Record], tags: TagReader, path: Path
) -> tuple[Iterator[_Record], str]:
    """
    Returns the records of a file and how it is annotated, which the first sentences up to one with a tag or a
    span show.
    """
    begin: list[_Record] = []
    annotation = _NOTHING
    for record in records:
        begin.append(record)
        if isinstance(record, EntitySentence) and _annotation(record) != _NOTHING:
            annotation = _annotation(record) if annotation == _NOTHING else annotation
            if record.tags is None or tags.find_scheme(record.tags):
                break
    if annotation == _NOTHING and any(isinstance(record, EntitySentence) for record in begin):
        logger.warning("%s: the sentences have no tags and can only be used for predictions", path)
    return chain(begin, records), annotation


def _count_scheme(tags: TagReader, counts: Tally) -> None:
    """Names the tag scheme among the counts of a file, and what it does not allow."""
    if not tags.has_read:
        return
    counts[f"sentences: {tags}"] = counts.pop("sentences", 0)
    if tags.brackets and not any(name.startswith("entities") for name in counts):
        logger.warning("%s: the tags have no entity, such as (PERSON*", counts.path)
    if tags.misfits:
        number, line, tag = tags.misfits
        right = ("B" if tag.startswith("I") else "I") + tag[1:]
        problem = f"{tag} is read as {right}, since the other tags are {tags}"
        counts.count_oddity(f"{tag[0]}- tags read as {right[0]}-", line, problem, number)


def _annotation(sentence: EntitySentence) -> str:
    if sentence.tags is not None:
        return "tags"
    return _NOTHING if sentence.spans is sentence.characters is None else "spans"


def _entities(sentence: EntitySentence, annotation: str, tags: TagReader, counts: Tally) -> list[Span]:
    """Returns the entities of a sentence of a file with this annotation, without overlapping ones."""
    lines = sentence.lines
    if (own := _annotation(sentence)) != annotation:
        raise InputError(f"the record has {own}, others have {annotation}", where=counts.path, line=lines[0])
    if sentence.tags is not None:
        return tags.spans(sentence.tags, lines)
    for problem in sentence.moved:
        kind = "spans that are where their text is, not at their offsets"
        counts.count_oddity(kind, lines[0], problem)
    spans = sentence.spans
    if spans is None:
        spans = [_tokens_of(sentence, span, counts) for span in sentence.characters or ()]
    taken: list[Span] = []
    for span in sorted(set(spans), key=lambda span: (span.start - span.end, span)):
        longer = next((other for other in taken if span.start < other.end and other.start < span.end), None)
        if longer is not None:
            problem = f"{_shown(sentence, span)} overlaps {_shown(sentence, longer)}"
            counts.count_oddity("spans that overlap another left out", lines[span.start], problem)
        else:
            taken.append(span)
    return sorted(taken)


def _shown(sentence: EntitySentence, span: Span) -> str:
    return f"{' '.join(sentence.words[span.start : span.end])!r} ({span.label})"


def _tokens_of(sentence: EntitySentence, span: Span, counts: Tally) -> Span:
    """Finds the tokens of a span of characters; white space at its ends does not count."""
    text, words, offsets = sentence.text or join_words(sentence.words)
    characters = text[span.start : span.end]
    start = span.end - len(characters.lstrip())
    end = span.start + len(characters.rstrip())
    first = bisect_right([token_end for _, token_end in offsets], start)
    last = bisect_left([token_start for token_start, _ in offsets], end) - 1
    if first > last:
        problem = f"{characters!r} ({span.label}) is between two tokens"
        raise InputError(problem, where=counts.path, line=sentence.lines[0])
    if (offsets[first][0], offsets[last][1]) != (start, end):
        whole = " ".join(words[first : last + 1])
        problem = f"{characters!r} ({span.label}) cuts a token, and is read as {whole!r}"
        counts.count_oddity("spans that begin or end within a token", sentence.lines[first], problem)
    return Span(first, last + 1, span.label)
