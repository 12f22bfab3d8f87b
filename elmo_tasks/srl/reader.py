"""Predicates with their arguments, from columns (CoNLL-2012, CoNLL-2005), JSON Lines, or lines of tags."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, MetadataField, SequenceLabelField, TextField

from elmo_tasks.common.values import Name
from elmo_tasks.data.fields import Metadata, TagField, no_prediction
from elmo_tasks.data.formats.columns import gold_files
from elmo_tasks.data.input_files import InputError, value_or_error
from elmo_tasks.data.reader import TaskReader, check_words, group_id, join_words
from elmo_tasks.data.tag_schemes import Scheme, to_spans
from elmo_tasks.data.tokenization import Words
from elmo_tasks.srl.sentences import (
    Columns,
    Format,
    Nested,
    Proposition,
    SrlSentence,
    format_of,
    read_sentences,
    word_files,
)

logger = logging.getLogger(__name__)


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
        """The predicate, by AllenNLP's name."""
        return self.predicate

    @property
    def verb(self) -> str | None:
        """The word of the predicate, by AllenNLP's name."""
        return None if self.predicate is None else self.words[self.predicate]

    def __len__(self) -> int:
        return len(self.words)


class SentenceInstance(Instance):
    """
    A text with the instances of its predicates, which the model reads instead; `None` if they are to be
    found. An instance has the words of a sentence of the text; `starts` has for each its first word, 0 if it
    is not given. `reason` says why there is no prediction.
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
    Makes one instance of each predicate. For the formats see `sentences.py`. In a folder of OntoNotes, the
    skeleton files (`*_skel`), which have no words, and automatic annotation (`*_auto_conll`) beside gold are
    left out. Instances have `tokens`, `predicate` (its index, or -1), `sentence` (an id that the
    predicates of a sentence share, for the sampler `elmo_grouped_bucket` and for all that the model computes
    once a sentence), `metadata` (a `SrlProposition`) and, if the sentence is labelled, `tags` (IOB2).

    # Parameters

    format : `auto` finds the format of each file from its first sentence; `conll2012`, `conll2005`, `words`,
        `json_lines` and `he2017` say it.
    columns : names of the columns in order, for files in other columns than those of CoNLL-2012 and
        CoNLL-2005. See `Columns`.
    delimiter : text between two columns; by default any run of blanks and tabs.
    verbs_only : leave out predicates whose part of speech does not begin with V.
    keep_without_predicates : also make an instance of a sentence without predicates, for prediction; it takes
        no part in loss and metric.
    strict : whether to refuse arguments inside of others, such as `(ARG0(ARG1*))`. Otherwise the outer one is
        kept; the inner ones are counted, and a warning names the first one of a file.
    skip_bad : whether to leave out sentences that do not follow the format. A warning has their number and
        the first three.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: impossible columns or delimiter. When reading, `InputError` with file, line and
    column: no file, no sentence in a file, no instance at all, another encoding, a wrong number of columns,
    an empty word, brackets that do not match, other numbers of predicates and of their columns, with
    `verbs_only` no part of speech, no JSON object, a field that is missing, misspelt or of another type, and
    spans that are outside the sentence, overlap or are out of order.
    """

    def __init__(
        self,
        *,
        format: Format = "auto",
        columns: Optional[Sequence[Name]] = None,
        delimiter: Optional[Name] = None,
        verbs_only: bool = False,
        keep_without_predicates: bool = False,
        strict: bool = False,
        skip_bad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if columns is not None and format != "auto":
            raise ConfigurationError("found columns and format, expected one of them")
        self.format = format
        self.columns = None if columns is None else Columns(columns, delimiter)
        self.delimiter = delimiter
        self.verbs_only = verbs_only
        self.keep_without_predicates = keep_without_predicates
        self.strict = strict
        self.skip_bad = skip_bad

    def _read(self, file_path: str) -> Iterator[Instance]:
        # A worker takes all predicates of its sentences.
        for sentence in self.shard_iterable(self._sentences(file_path)):
            if isinstance(sentence, InputError):
                yield no_prediction(sentence)
                continue
            # One text for all predicates, so that it is in memory once
            words, tokens = sentence.words, TextField([Token(word) for word in sentence.words])
            if self.every_record:
                # Without tags, since some sentences of a batch may have none
                predicates = [each.predicate for each in sentence.propositions] + sentence.without_arguments
                instances = [_instance(words, tokens, predicate, None) for predicate in predicates]
                reason = "" if instances else "no predicate is marked in the sentence"
                found = instances if sentence.marked else None
                yield SentenceInstance(join_words(words), found, reason, sentence.ids)
                continue
            for proposition in sentence.propositions:
                yield _instance(words, tokens, proposition.predicate, proposition.tags)
            if not sentence.propositions:
                yield _instance(words, tokens, None, ["O"] * len(words))

    record_field = "tokens"
    whole_files: ClassVar[dict[str, Any]] = {"keep_without_predicates": True}

    def format_of(self, files: Sequence[Path]) -> str:
        return format_of(files[0], encoding=self.encoding) if self.format == "auto" else self.format

    def text_to_instance(
        self,
        words: Sequence[str | Token],
        predicate: int | list[int] | None = None,
        tags: list[str] | None = None,
    ) -> Instance:
        """
        Returns the instance of a predicate, by its index among the words, or, as AllenNLP's predictor gives
        it, by a list that has 1 there; without `tags` for prediction.

        # Raises
        `ConfigurationError`: no words, no such index, another number of tags than words. `TagError`: tags
        that are not IOB2.
        """
        words = [str(word) for word in words]
        if isinstance(predicate, list):
            predicate = predicate.index(1) if 1 in predicate else None
        check_words(words, tags=tags)
        if tags is not None:
            to_spans(tags, Scheme.IOB2)
        if predicate is not None and not 0 <= predicate < len(words):
            raise ConfigurationError(
                f"found the predicate {predicate}, expected one of {len(words)} words from 0"
            )
        return _instance(words, TextField([Token(word) for word in words]), predicate, tags)

    def _sentences(self, file_path: str) -> Iterator[SrlSentence | InputError]:
        paths = word_files(gold_files(file_path))
        total = yield from self.read_files(file_path, self._file, self._describe, paths)
        if not total["instances"] and not self._keep:
            raise InputError.at(file_path, found=self._describe(total), expected="a predicate")

    @property
    def _keep(self) -> bool:
        return self.keep_without_predicates or self.every_record

    def _file(self, path: Path, counts: Counter[str]) -> Iterator[SrlSentence | InputError]:
        first_nested: Nested | None = None
        labelled: tuple[int, bool] | None = None
        records = read_sentences(
            path, self.columns, format=self.format, delimiter=self.delimiter, encoding=self.encoding
        )
        examples = (value_or_error(self._checked, path, each) for each in records)
        for example in self.valid_examples(path, examples):
            if not isinstance(example, SrlSentence):
                counts["bad"] += 1
                yield example
                continue
            sentence = example
            for proposition in sentence.propositions:
                has_tags = proposition.tags is not None
                labelled = labelled or (sentence.line, has_tags)
                if labelled[1] != has_tags:
                    found, expected = ("arguments", "none") if has_tags else ("no arguments", "some")
                    found, expected = f"a predicate with {found}", f"{expected}, as in line {labelled[0]}"
                    raise InputError.at(path, sentence.line, found=found, expected=expected)
            counts["sentences"] += 1
            counts["predicates"] += len(sentence.propositions)
            if self.verbs_only:
                sentence.propositions = [
                    each for each in sentence.propositions if _is_verb(path, sentence.line, each)
                ]
            counts["instances"] += len(sentence.propositions)
            counts["without"] += not sentence.propositions
            counts["nested"] += len(sentence.nested)
            first_nested = first_nested or next(iter(sentence.nested), None)
            if sentence.propositions or self._keep:
                yield sentence
        if not counts:
            raise InputError.at(path, found="no sentence", expected="at least one")
        if first_nested is not None:
            logger.warning(
                "%s (such arguments in this file, of which the outer ones are kept: %d)",
                _nested_error(path, first_nested),
                counts["nested"],
            )

    def _checked(self, path: Path, record: Callable[[], SrlSentence]) -> SrlSentence:
        sentence = record()
        if self.strict and sentence.nested:
            raise _nested_error(path, sentence.nested[0])
        return sentence

    def _describe(self, counts: Counter[str]) -> str:
        kept_or_not = "kept" if self._keep else "left out"
        dropped = counts["predicates"] - counts["instances"]
        return (
            f"{counts['sentences']} sentences, {counts['without']} of them without predicates "
            f"({kept_or_not}), {counts['instances']} predicates"
            + (f" and {dropped} that are no verbs" if self.verbs_only else "")
            + (f"; {counts['nested']} arguments inside of others left out" if counts["nested"] else "")
        )


def _nested_error(path: Path, nested: Nested) -> InputError:
    found, expected = f"{nested.label} inside of {nested.outer}", "arguments beside one another"
    return InputError.at(path, nested.line, found=found, expected=expected)


def _is_verb(path: Path, line: int, proposition: Proposition) -> bool:
    if proposition.pos is None:
        expected = "pos, with verbs_only"
        raise InputError.at(path, line, found="predicates without parts of speech", expected=expected)
    return proposition.pos.startswith("V")


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
