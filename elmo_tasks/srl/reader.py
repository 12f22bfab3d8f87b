"""Predicates with their arguments, from columns (CoNLL-2012, CoNLL-2005), JSON Lines, or lines of tags."""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, MetadataField, SequenceLabelField, TextField

from elmo_tasks.common.values import Name, OneOf
from elmo_tasks.data.fields import Metadata, TagField
from elmo_tasks.data.formats import Fit, Format
from elmo_tasks.data.formats.columns import gold_files
from elmo_tasks.data.formats.roles import (
    FORMATS,
    PROPS,
    WORDS,
    RoleArgument,
    RoleColumns,
    RoleOptions,
    RoleSentence,
    read_columns,
)
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.reader import TaskReader, check_words, group_id, join_words
from elmo_tasks.data.tag_schemes import Scheme, Span, from_spans, to_spans
from elmo_tasks.data.tally import Tally
from elmo_tasks.data.tokenization import Words
from elmo_tasks.srl.metric import to_tags

_Example = tuple[RoleSentence, list[list[str] | None]]
"""A sentence with the tags of each predicate."""


@dataclass
class SrlProposition(Metadata):
    """The metadata of an instance: its words and its predicate."""

    words: list[str]
    predicate: int | None
    """The predicate's index among the words; `None` for a sentence without predicates."""
    gold_tags: list[str] | None = None

    @property
    def sentence(self) -> int:
        """An id that is equal for the propositions of equal sentences."""
        return group_id(json.dumps(self.words))

    @property
    def verb_index(self) -> int | None:
        return self.predicate

    @property
    def verb(self) -> str | None:
        return None if self.predicate is None else self.words[self.predicate]

    def __len__(self) -> int:
        return len(self.words)


class SentenceInstance(Instance):
    """
    A text with the instances of its predicates, which the model reads instead; `None` if they are to be
    found. `starts` has for each the first word of its sentence in the text. `reason` says why the text has no
    prediction.
    """

    def __init__(
        self,
        text: Words,
        propositions: list[Instance] | None,
        reason: str = "",
        ids: Mapping[str, Any] = MappingProxyType({}),
        starts: Sequence[int] | None = None,
    ) -> None:
        metadata = SrlProposition(text.words, None)
        metadata.ids = ids
        super().__init__({"metadata": MetadataField(metadata)})
        self.text, self.propositions, self.reason = text, propositions, reason
        self.starts = [0] * len(propositions or []) if starts is None else starts


@DatasetReader.register("elmo_srl")
class SrlReader(TaskReader):
    """
    Makes one instance of each predicate. For the formats see `data.formats.roles`, for folders of OntoNotes
    `gold_files`. Instances have `tokens`, `verb_indicator` (1 at the predicate), `metadata`
    (a `SrlProposition`) and, if the sentence is labelled, `tags` (IOB2).

    # Parameters

    format : of the files, see docs/srl.md; `auto` finds the format of each file from its first sentence.
    columns : names of the columns in order, for files of other columns, see `RoleColumns`.
    delimiter : text between two columns; by default any run of blanks and tabs.
    verbs_only : leave out predicates whose part of speech does not begin with V.
    keep_without_predicates : also make an instance of a sentence without predicates, for prediction; it takes
        no part in loss and metric.
    strict : whether to refuse arguments inside of others, such as `(ARG0(ARG1*))`. Otherwise the outer one is
        kept, and the inner ones are counted.
    The others : see `TaskReader`.
    """

    def __init__(
        self,
        *,
        format: Annotated[str, OneOf(("auto", *(format.name for format in FORMATS)))] = "auto",
        columns: Optional[Sequence[Name]] = None,
        delimiter: Optional[Name] = None,
        verbs_only: bool = False,
        keep_without_predicates: bool = False,
        strict: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if columns is not None and format != "auto":
            raise ConfigurationError("`columns` and `format` exclude each other")
        if columns is not None:
            RoleColumns(columns, delimiter)
        self.format = format
        self.columns = columns
        self.delimiter = delimiter
        self.verbs_only = verbs_only
        self.keep_without_predicates = keep_without_predicates
        self.strict = strict

    def instances(self, example: _Example) -> Iterator[Instance]:
        # One text for all predicates, so that it is in memory once
        sentence, tags = example
        words, tokens = sentence.words, TextField([Token(word) for word in sentence.words])
        if self.every_record:
            # Without tags, since some sentences of a batch may have none
            instances = [_instance(words, tokens, each.index, None) for each in sentence.predicates]
            reason = "" if instances else "no predicate is marked in the sentence"
            propositions = instances if sentence.marked else None
            yield SentenceInstance(join_words(words), propositions, reason, sentence.ids)
            return
        for predicate, tags_of_predicate in zip(sentence.predicates, tags, strict=True):
            yield _instance(words, tokens, predicate.index, tags_of_predicate)
        if not sentence.predicates:
            yield _instance(words, tokens, None, ["O"] * len(words))

    formats = FORMATS
    record_field = "tokens"
    whole_files: ClassVar[dict[str, Any]] = {"keep_without_predicates": True}

    def format_of(self, files: Sequence[Path]) -> str:
        return self._format(files[0]).name

    def _format(self, path: Path) -> Format:
        detected = self.detected_format(path)
        if self.columns is None or detected.name in ("json_lines", "he2017"):
            return detected
        return Format("columns", lambda _: Fit.POSSIBLE, read_columns)

    def text_to_instance(
        self,
        words: Sequence[str | Token],
        predicate: int | list[int] | None = None,
        tags: list[str] | None = None,
    ) -> Instance:
        """
        Returns the instance of a predicate, by its index, or by AllenNLP's list that has 1 there; without
        `tags` for prediction. No words, no such index, and tags that are not IOB2, one a word, are a
        `ConfigurationError`.
        """
        words = [str(word) for word in words]
        if isinstance(predicate, list):
            predicate = predicate.index(1) if 1 in predicate else None
        check_words(words, tags=tags)
        if tags is not None:
            to_spans(tags, Scheme.IOB2)
        if predicate is not None and not 0 <= predicate < len(words):
            raise ConfigurationError(f"the predicate {predicate} is not a word from 0 to {len(words) - 1}")
        return _instance(words, TextField([Token(word) for word in words]), predicate, tags)

    def examples(self, file_path: str) -> Iterator[_Example | InputError]:
        paths = gold_files(file_path, {WORDS: [PROPS]})
        total = yield from self.read_files(file_path, self._file, paths)
        if not total["predicates"] and not self._keep:
            raise InputError(f"no sentence has a predicate: {total}", where=file_path)

    @property
    def _keep(self) -> bool:
        return self.keep_without_predicates or self.every_record

    def _file(self, path: Path, counts: Tally) -> Generator[_Example | InputError]:
        options = RoleOptions(self.columns, self.delimiter, self.encoding)
        records = self._format(path).read(path, options)
        for sentence in records:
            if isinstance(sentence, InputError):
                yield sentence
                continue
            for predicate in sentence.predicates:
                annotation = "no arguments" if predicate.arguments is None else "arguments"
                counts.check_annotated_alike(sentence.lines[0], annotation)
            try:
                tags = [_tags(sentence, predicate.arguments, counts) for predicate in sentence.predicates]
            except InputError as error:
                yield error
                continue
            except ValueError as error:
                yield InputError(str(error), where=path, line=sentence.lines[0])
                continue
            counts["sentences"] += 1
            if self.verbs_only:
                parts_of_speech = [predicate.pos for predicate in sentence.predicates]
                if None in parts_of_speech:
                    problem = "`verbs_only` needs parts of speech, which the file does not have"
                    raise InputError(problem, where=path, line=sentence.lines[0])
                is_verb = [(pos or "").startswith("V") for pos in parts_of_speech]
                counts["predicates that are not verbs left out"] += is_verb.count(False)
                sentence.predicates = list(compress(sentence.predicates, is_verb))
                tags = list(compress(tags, is_verb))
            counts["predicates"] += len(sentence.predicates)
            kind = "sentences without predicates " + ("kept" if self._keep else "left out")
            counts[kind] += not sentence.predicates
            if sentence.predicates or self._keep:
                yield sentence, tags


def _tags(sentence: RoleSentence, arguments: list[RoleArgument] | None, counts: Tally) -> list[str] | None:
    """Tags the outer arguments of a predicate, and counts the inner ones."""
    if arguments is None:
        return None
    spans = [Span(*part, argument.label) for argument in arguments for part in argument.spans]

    def is_inside(i: int, j: int) -> bool:
        # Of equal spans, the first one is the outer one.
        within = spans[j].start <= spans[i].start < spans[i].end <= spans[j].end
        return i != j and within and (j < i or spans[i][:2] != spans[j][:2])

    outer_of = {i: spans[j] for i in range(len(spans)) for j in range(len(spans)) if is_inside(i, j)}
    for i, outer in outer_of.items():
        problem = f"{spans[i].label} is inside of {outer.label}"
        counts.count_oddity("arguments inside of others left out", sentence.lines[spans[i].start], problem)
    if all(len(argument.spans) == 1 for argument in arguments):
        outer_spans = [span for i, span in enumerate(spans) if i not in outer_of]
        return from_spans(outer_spans, len(sentence.words), Scheme.IOB2)
    numbers = iter(range(len(spans)))
    remaining = [
        RoleArgument(label, tuple(part for part in parts if next(numbers) not in outer_of))
        for label, parts in arguments
    ]
    left = [new for new, old in zip(remaining, arguments, strict=True) if new.spans or not old.spans]
    return to_tags(left, len(sentence.words))


class _RoleField(TagField):
    """A `TagField` of IOB2."""

    prefixes = "BI"


def _instance(words: list[str], tokens: TextField, predicate: int | None, tags: list[str] | None) -> Instance:
    fields: dict[str, Field] = {
        "tokens": tokens,
        "verb_indicator": SequenceLabelField([int(i == predicate) for i in range(len(words))], tokens),
        "metadata": MetadataField(SrlProposition(words, predicate, tags)),
    }
    if tags is not None:
        fields["tags"] = _RoleField(tags, tokens)
    return Instance(fields)
