"""Sentences and phrases with their sentiment, from trees: the Stanford Sentiment Treebank and the like."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, TokenIndexer
from allennlp.data.fields import Field, MetadataField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.data.label_field import ClosedLabelField
from elmo_tasks.sst.trees import Tree, TreeError, parse
from elmo_tasks.strict_params import StrictParams

logger = logging.getLogger(__name__)

_CLASSES: dict[int, tuple[str | None, ...]] = {
    5: ("0", "1", "2", "3", "4"),
    3: ("negative", "negative", "neutral", "positive", "positive"),
    2: ("negative", "negative", None, "positive", "positive"),
}
"""For each granularity the class of each label of a tree; without one, a phrase is left out."""


@dataclass
class SstSentence:
    """What an instance knows of its sentence beside tensors; no list, so that nothing walks through it."""

    words: list[str]

    def __len__(self) -> int:
        return len(self.words)


class _Example(NamedTuple):
    """A sentence or phrase that becomes an instance."""

    tokens: list[Token]
    label: str
    inside: bool
    """Whether it is part of another example."""


@DatasetReader.register("elmo_sst")
class SstReader(StrictParams, DatasetReader):
    """
    One tree a line (`trees.py` has the format); lines without content are passed over. Instances have
    `tokens`, `metadata` (an `SstSentence`) and, of labelled sentences, `label`: all classes of the
    granularity get into the vocabulary, from negative to positive.

    Of phrases inside a sentence that is read too, the vocabulary does not count the words again: with
    `min_count`, a word is rare that few sentences have.

    # Parameters

    token_indexers : as in any AllenNLP reader; by default one id a word, named `tokens`.
    granularity : 5: the classes `0` to `4` of the trees; 3: `negative` (0 and 1), `neutral`, `positive` (3
        and 4); 2: the same without the neutral ones, which are left out, and counted in the log.
    min_phrase_tokens : read also the phrases inside sentences that have at least so many tokens, as the paper
        does for training, with 4; `None` for sentences only.
    The others : see `DatasetReader`.

    # Raises
    `ConfigurationError`: an impossible granularity or number of tokens. When reading, `InputError` with
    file and line: no file, nothing to read in a file, not UTF-8, and with the column too what is no tree.
    """

    def __init__(
        self,
        *,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        granularity: int = 5,
        min_phrase_tokens: Optional[int] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(manual_distributed_sharding=True, manual_multiprocess_sharding=True, **kwargs)
        if granularity not in _CLASSES:
            raise ConfigurationError(f"granularity is {granularity}, expected 2, 3 or 5")
        if min_phrase_tokens is not None and min_phrase_tokens < 1:
            raise ConfigurationError(f"min_phrase_tokens is {min_phrase_tokens}, expected 1 or more, or null")
        self.token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self.min_phrase_tokens = min_phrase_tokens
        self._class_of = _CLASSES[granularity]
        self.classes = list(dict.fromkeys(filter(None, self._class_of)))
        """The labels of this granularity, from negative to positive."""

    def _read(self, file_path: str) -> Iterator[Instance]:
        for example in self.shard_iterable(self._examples(file_path)):
            yield self._instance(example.tokens, example.label, inside=example.inside)

    def text_to_instance(self, words: list[str], label: Optional[str] = None) -> Instance:
        """
        The instance of one sentence; without `label` for prediction.

        # Raises
        `ConfigurationError`: no words, or a label that is none of `classes`.
        """
        if not words:
            raise ConfigurationError("found no words, expected at least one")
        if label is not None and label not in self.classes:
            raise ConfigurationError(f"found the label {label!r}, expected one of {', '.join(self.classes)}")
        return self._instance([Token(word) for word in words], label, inside=False)

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["tokens"].token_indexers = self.token_indexers

    def _instance(self, tokens: list[Token], label: str | None, *, inside: bool) -> Instance:
        words = [token.text or "" for token in tokens]
        fields: dict[str, Field] = {
            "tokens": _Text(tokens, counted=not inside),
            "metadata": MetadataField(SstSentence(words)),
        }
        if label is not None:
            fields["label"] = ClosedLabelField(label, self.classes)
        return Instance(fields)

    def _examples(self, file_path: str) -> Iterator[_Example]:
        """The examples of all files; a file is read as a whole, so that it is counted before it is used."""
        total = _Summary()
        paths = input_files(file_path)
        for path in paths:
            summary = _Summary()
            examples = [example for tree in _trees(path) for example in self._of_tree(tree, summary)]
            if not examples:
                raise InputError.at(path, found=f"{summary}", expected="at least one sentence to read")
            logger.info("%s: %s", path, summary)
            total.add(summary)
            yield from examples
        if len(paths) > 1:
            logger.info("%s: %d files, %s", file_path, len(paths), total)

    def _of_tree(self, tree: Tree, summary: "_Summary") -> Iterator[_Example]:
        tokens = [Token(word) for word in tree.words]
        end_of_outer = 0
        for index, phrase in enumerate(tree.phrases):
            if index > 0 and not self._is_long(phrase.end - phrase.start):
                continue
            label = self._class_of[phrase.label]
            summary.count(label, is_sentence=index == 0)
            if label is not None:
                inside = phrase.end <= end_of_outer
                end_of_outer = max(end_of_outer, phrase.end)
                yield _Example(tokens[phrase.start : phrase.end], label, inside)

    def _is_long(self, length: int) -> bool:
        """Whether to read a phrase of so many tokens."""
        return self.min_phrase_tokens is not None and length >= self.min_phrase_tokens


class _Text(TextField):
    """A `TextField` whose words the vocabulary counts only if `counted`; else it does so in another one."""

    def __init__(self, tokens: list[Token], *, counted: bool) -> None:
        super().__init__(tokens)
        self._counted = counted

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        if self._counted:
            super().count_vocab_items(counter)


@dataclass
class _Summary:
    """What was read, for the log."""

    sentences: int = 0
    phrases: int = 0
    left_out: int = 0
    classes: Counter[str] = field(default_factory=Counter)

    def count(self, label: str | None, *, is_sentence: bool) -> None:
        if label is None:
            self.left_out += 1
            return
        self.sentences += is_sentence
        self.phrases += not is_sentence
        self.classes[label] += 1

    def add(self, other: "_Summary") -> None:
        self.sentences += other.sentences
        self.phrases += other.phrases
        self.left_out += other.left_out
        self.classes += other.classes

    def __str__(self) -> str:
        classes = ", ".join(f"{label} {count}" for label, count in sorted(self.classes.items()))
        return (
            f"{self.sentences} sentences and {self.phrases} phrases inside them"
            + (f" ({classes})" if classes else "")
            + (f"; {self.left_out} neutral left out" if self.left_out else "")
        )


def _trees(path: Path) -> Iterator[Tree]:
    for number, line in read_lines(path):
        if not line.strip(" \t"):
            continue
        try:
            yield parse(line)
        except TreeError as error:
            found = f"{error.found} in column {error.column}"
            raise InputError.at(path, number, found=found, expected=error.expected) from error
