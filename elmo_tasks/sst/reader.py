"""Sentences and phrases with their sentiment, from trees: the Stanford Sentiment Treebank and the like."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional, cast

from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import MetadataField, TextField

from elmo_tasks.common.values import OneOf, PositiveInt
from elmo_tasks.data.fields import Metadata, check_label, labelled_instance
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.reader import TaskReader, check_words
from elmo_tasks.sst.trees import Tree, TreeError, parse

_CLASSES: dict[int, tuple[str | None, ...]] = {
    5: ("0", "1", "2", "3", "4"),
    3: ("negative", "negative", "neutral", "positive", "positive"),
    2: ("negative", "negative", None, "positive", "positive"),
}
"""For each granularity the class of each label of a tree; without one, a phrase is left out."""


_SENTENCES, _PHRASES, _LEFT_OUT = "sentences", "phrases inside them", "neutral left out"


@dataclass
class SstSentence(Metadata):
    """What an instance knows of its sentence beside tensors."""

    words: list[str]

    def __len__(self) -> int:
        return len(self.words)


class _Place(NamedTuple):
    """Where a sentence or phrase stands: the number of its tree in a file, and its words in the tree."""

    file: Path
    tree: int
    start: int
    end: int


class _Example(NamedTuple):
    """A sentence or phrase that becomes an instance."""

    tokens: list[Token]
    label: str
    place: _Place


@DatasetReader.register("elmo_sst")
class SstReader(TaskReader):
    """
    One tree a line (`trees.py` has the format); lines without content are passed over. Instances have
    `tokens`, `metadata` (an `SstSentence`) and, of labelled sentences, `label`: all classes of the
    granularity get into the vocabulary, from negative to positive.

    Of phrases inside a sentence that is read too, the vocabulary does not count the words again: with
    `min_count`, a word is rare that few sentences have.

    # Parameters

    granularity : 5: the classes `0` to `4` of the trees; 3: `negative` (0 and 1), `neutral`, `positive` (3
        and 4); 2: the same without the neutral ones, which are left out, and counted in the log.
    min_phrase_tokens : read also the phrases inside sentences that have at least so many tokens, as the paper
        does for training, with 4; `None` for sentences only.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: an impossible granularity or number of tokens. When reading, `InputError` with
    file and line: no file, nothing to read in a file, not UTF-8, and with the column too what is no tree.
    """

    def __init__(
        self,
        *,
        granularity: Annotated[int, OneOf(_CLASSES)] = 5,
        min_phrase_tokens: Optional[PositiveInt] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.min_phrase_tokens = min_phrase_tokens
        self._class_of = _CLASSES[granularity]
        self.classes = list(dict.fromkeys(filter(None, self._class_of)))
        """The labels of this granularity, from negative to positive."""

    def _read(self, file_path: str) -> Iterator[Instance]:
        for example, inside in self.shard_iterable(self.read_files(file_path, self._file, self._describe)):
            yield self._instance(example.tokens, example.label, example.place, inside=inside)

    def sampled(self, instances: Sequence[Instance]) -> None:
        """The words of a phrase count where the phrases around it were not drawn."""
        texts = [cast(_Text, instance["tokens"]) for instance in instances]
        for text, inside in zip(texts, _inside_others(text.place for text in texts), strict=True):
            text.counted = not inside

    def text_to_instance(self, words: list[str], label: Optional[str] = None) -> Instance:
        """
        The instance of one sentence; without `label` for prediction.

        # Raises
        `ConfigurationError`: no words, or a label that is none of `classes`.
        """
        check_words(words)
        check_label(label, self.classes)
        return self._instance([Token(word) for word in words], label)

    def _instance(
        self, tokens: list[Token], label: str | None, place: _Place | None = None, *, inside: bool = False
    ) -> Instance:
        words = [token.text or "" for token in tokens]
        text = _Text(tokens, place, counted=not inside)
        return labelled_instance(
            {"tokens": text, "metadata": MetadataField(SstSentence(words))}, label, self.classes
        )

    def _file(self, path: Path, counts: Counter[str]) -> Iterator[tuple[_Example, bool]]:
        """
        The examples, and whether each is part of another. A file is read as a whole, so that it is counted
        before it is used.
        """
        examples = [
            example
            for number, tree in enumerate(_trees(path))
            for example in self._of_tree(path, number, tree, counts)
        ]
        if not examples:
            raise InputError.at(path, found=self._describe(counts), expected="at least one sentence to read")
        yield from zip(examples, _inside_others(example.place for example in examples), strict=True)

    def _describe(self, counts: Counter[str]) -> str:
        classes = ", ".join(f"{label} {counts[label]}" for label in sorted(self.classes) if counts[label])
        return (
            f"{counts[_SENTENCES]} {_SENTENCES} and {counts[_PHRASES]} {_PHRASES}"
            + (f" ({classes})" if classes else "")
            + (f"; {counts[_LEFT_OUT]} {_LEFT_OUT}" if counts[_LEFT_OUT] else "")
        )

    def _of_tree(self, path: Path, number: int, tree: Tree, counts: Counter[str]) -> Iterator[_Example]:
        tokens = [Token(word) for word in tree.words]
        for index, phrase in enumerate(tree.phrases):
            if index > 0 and not self._is_long(phrase.end - phrase.start):
                continue
            label = self._class_of[phrase.label]
            if label is None:
                counts[_LEFT_OUT] += 1
            else:
                counts[_PHRASES if index else _SENTENCES] += 1
                counts[label] += 1
                place = _Place(path, number, phrase.start, phrase.end)
                yield _Example(tokens[phrase.start : phrase.end], label, place)

    def _is_long(self, length: int) -> bool:
        """Whether to read a phrase of so many tokens."""
        return self.min_phrase_tokens is not None and length >= self.min_phrase_tokens


class _Text(TextField):
    """A `TextField` whose words the vocabulary counts only if `counted`; otherwise another field has them."""

    def __init__(self, tokens: list[Token], place: _Place | None, *, counted: bool) -> None:
        super().__init__(tokens)
        self.place, self.counted = place, counted

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        if self.counted:
            super().count_vocab_items(counter)


def _inside_others(places: Iterable[_Place | None]) -> Iterator[bool]:
    """Whether each is part of one before it; in a tree, a phrase stands before those inside it."""
    tree, end_of_outer = None, 0
    for place in places:
        if place is None:
            yield False
            continue
        if (place.file, place.tree) != tree:
            tree, end_of_outer = (place.file, place.tree), 0
        yield place.end <= end_of_outer
        end_of_outer = max(end_of_outer, place.end)


def _trees(path: Path) -> Iterator[Tree]:
    for number, line in read_lines(path):
        if not line.strip(" \t"):
            continue
        try:
            yield parse(line)
        except TreeError as error:
            found = f"{error.found} in column {error.column}"
            raise InputError.at(path, number, found=found, expected=error.expected) from error
