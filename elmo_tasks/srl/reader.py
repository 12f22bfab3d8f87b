"""Predicates with their arguments, from columns (CoNLL 2012, CoNLL 2005) or JSON Lines."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, IndexField, LabelField, MetadataField, TextField
from allennlp.nn.util import get_text_field_mask

from elmo_tasks.common.values import Name
from elmo_tasks.data.fields import Metadata, TagField
from elmo_tasks.data.formats.conll2012 import gold_files
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.reader import TaskReader, check_words, group_number
from elmo_tasks.data.tag_schemes import Scheme, to_spans
from elmo_tasks.srl.sentences import CONLL_2012, Columns, Proposition, SrlSentence, read_sentences

_NO_PREDICATE = -1


@dataclass
class SrlProposition(Metadata):
    """The metadata of an instance: its words and its predicate."""

    words: list[str]
    predicate: int | None
    """The predicate's index among the words; `None` for a sentence without predicates."""
    gold_tags: list[str] | None = None
    """The tags in IOB2, if the sentence is labelled."""

    own_fields = frozenset({"predicate", "sentence"})

    @classmethod
    def allennlp_fields(cls, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns `verb_indicator`, 1 at the predicate. *Shape:* `(batch, tokens)`."""
        mask = get_text_field_mask(batch["tokens"])
        positions = torch.arange(mask.size(1), device=mask.device)
        return {"verb_indicator": (positions == batch["predicate"]).long()}

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


@DatasetReader.register("elmo_srl")
class SrlReader(TaskReader):
    """
    Makes one instance of each predicate. For the formats see `sentences.py`. In a folder of OntoNotes, the
    skeleton files (`*_skel`), which have no words, and automatic annotation (`*_auto_conll`) beside gold are
    left out. Instances have `tokens`, `predicate` (its index, or -1), `sentence` (a number that the
    predicates of a sentence share, for the sampler `elmo_grouped_bucket` and for all that the model computes
    once a sentence), `metadata` (a `SrlProposition`) and, if the sentence is labelled, `tags` (IOB2).

    # Parameters

    columns : names of the columns in order, by default the columns of CoNLL 2012. For the words and the props
        of CoNLL 2005 side by side: `["word", "predicate", "arguments"]`. See `Columns`.
    delimiter : text between two columns; by default any run of blanks and tabs.
    verbs_only : leave out predicates whose part of speech does not begin with V.
    keep_without_predicates : also make an instance of a sentence without predicates, for prediction; it takes
        no part in loss and metric.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: impossible columns or delimiter. When reading, `InputError` with file, line and
    column: no file, no sentence in a file, no instance at all, not UTF-8, a wrong number of columns, an empty
    word, brackets that do not match, nested arguments, other numbers of predicates and of their columns, with
    `verbs_only` no part of speech, no JSON object, a field that is missing or of another type, and spans that
    are outside the sentence, overlap or are out of order.
    """

    def __init__(
        self,
        *,
        columns: Sequence[Name] = CONLL_2012,
        delimiter: Optional[Name] = None,
        verbs_only: bool = False,
        keep_without_predicates: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.columns = Columns(columns, delimiter)
        self.verbs_only = verbs_only
        self.keep_without_predicates = keep_without_predicates

    def _read(self, file_path: str) -> Iterator[Instance]:
        # A worker takes all predicates of its sentences.
        for sentence in self.shard_iterable(self._sentences(file_path)):
            # One text for all predicates, so that it is in memory once
            tokens = TextField([Token(word) for word in sentence.words])
            for proposition in sentence.propositions:
                yield _instance(sentence.words, tokens, proposition.predicate, proposition.tags)
            if not sentence.propositions:
                yield _instance(sentence.words, tokens, None, ["O"] * len(sentence.words))

    def allennlp_instance(self, tokens: list[Token], verb_label: list[int]) -> Instance:
        """See `TaskReader`."""
        return self.text_to_instance(
            [token.text for token in tokens], verb_label.index(1) if 1 in verb_label else None
        )

    def text_to_instance(
        self, words: list[str], predicate: Optional[int] = None, tags: Optional[list[str]] = None
    ) -> Instance:
        """
        Returns the instance of a predicate, by its index among the words; without `tags` for prediction.

        # Raises
        `ConfigurationError`: no words, no such index, another number of tags than words. `TagError`: tags
        that are not IOB2.
        """
        check_words(words, tags=tags)
        if tags is not None:
            to_spans(tags, Scheme.IOB2)
        if predicate is not None and not 0 <= predicate < len(words):
            raise ConfigurationError(
                f"found the predicate {predicate}, expected one of {len(words)} words from 0"
            )
        return _instance(words, TextField([Token(word) for word in words]), predicate, tags)

    def _sentences(self, file_path: str) -> Iterator[SrlSentence]:
        """Yields the sentences of all files that become instances."""
        total: Counter[str] = Counter()
        read = partial(self._file, total=total)
        yield from self.read_files(file_path, read, self._describe, gold_files(file_path))
        if not total["instances"] and not self.keep_without_predicates:
            raise InputError.at(file_path, found=self._describe(total), expected="a predicate")

    def _file(self, path: Path, counts: Counter[str], *, total: Counter[str]) -> Iterator[SrlSentence]:
        for sentence in read_sentences(path, self.columns):
            counts["sentences"] += 1
            counts["predicates"] += len(sentence.propositions)
            if self.verbs_only:
                sentence.propositions = [
                    each for each in sentence.propositions if _is_verb(path, sentence.line, each)
                ]
            counts["instances"] += len(sentence.propositions)
            counts["without"] += not sentence.propositions
            if sentence.propositions or self.keep_without_predicates:
                yield sentence
        if not counts["sentences"]:
            raise InputError.at(path, found="no sentence", expected="at least one")
        total.update(counts)

    def _describe(self, counts: Counter[str]) -> str:
        kept_or_not = "kept" if self.keep_without_predicates else "left out"
        dropped = counts["predicates"] - counts["instances"]
        return (
            f"{counts['sentences']} sentences, {counts['without']} of them without predicates "
            f"({kept_or_not}), {counts['instances']} predicates"
            + (f" and {dropped} that are no verbs" if self.verbs_only else "")
        )


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
        "predicate": IndexField(_NO_PREDICATE if predicate is None else predicate, tokens),
        "sentence": LabelField(group_number(json.dumps(words)), skip_indexing=True),
        "metadata": MetadataField(SrlProposition(words, predicate, tags)),
    }
    if tags is not None:
        fields["tags"] = _RoleField(tags, tokens)
    return Instance(fields)
