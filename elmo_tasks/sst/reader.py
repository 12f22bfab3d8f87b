"""Reads sentences and phrases with their sentiment from the trees of the Stanford Sentiment Treebank."""

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional, cast

from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import MetadataField, TextField

from elmo_tasks.common.values import OneOf, PositiveInt
from elmo_tasks.data.fields import Metadata, check_label, labelled_instance
from elmo_tasks.data.formats.trees import FORMATS, Tree, read_trees
from elmo_tasks.data.input_files import InputError, check_found
from elmo_tasks.data.reader import TaskReader, check_words
from elmo_tasks.data.tally import Tally

_CLASSES: dict[int, tuple[str | None, ...]] = {
    5: ("0", "1", "2", "3", "4"),
    3: ("negative", "negative", "neutral", "positive", "positive"),
    2: ("negative", "negative", None, "positive", "positive"),
}
"""For each granularity the class of each label of a tree; phrases without a class are left out."""
_LEFT_OUT = "neutral left out"


@dataclass
class SstSentence(Metadata):
    words: list[str]

    def __len__(self) -> int:
        return len(self.words)


class _Position(NamedTuple):
    """The position of a sentence or phrase: the index of its tree in a file, and its words in the tree."""

    file: Path
    tree: int
    start: int
    end: int


@DatasetReader.register("elmo_sst")
class SstReader(TaskReader):
    """
    Reads one tree a line. Instances have `tokens`, `metadata` (an `SstSentence`) and, if labelled, `label`.
    The vocabulary has all classes of the granularity, from negative to positive. It counts the words of a
    sentence once, not again for the phrases inside it, so that `min_count` counts sentences.

    # Parameters

    granularity : 5: the classes `0` to `4` of the trees; 3: `negative` (0 and 1), `neutral`, `positive` (3
        and 4); 2: the same without neutral sentences and phrases, whose number is in the log.
    min_phrase_tokens : also read the phrases inside sentences that have this number of tokens or more, as the
        paper does for training, with 4; `None`: sentences only.
    The others : see `TaskReader`.
    """

    formats = FORMATS

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

    def examples(self, file_path: str) -> Iterator[Instance | InputError]:
        return self.read_files(file_path, self._file)

    def instances(self, example: Instance) -> Iterator[Instance]:
        yield example

    def sampled(self, instances: Sequence[Instance]) -> None:
        """Lets the vocabulary count the words of phrases that are in no other phrase among the instances."""
        texts = [cast(_Text, instance["tokens"]) for instance in instances]
        for text, inside in zip(texts, _inside_others(text.position for text in texts), strict=True):
            text.counted = not inside

    def text_to_instance(self, words: list[str], label: str | None = None) -> Instance:
        """Raises an error if there are no words, or if the label is unknown."""
        check_words(words)
        check_label(label, self.classes)
        return self._instance([Token(word) for word in words], label)

    def _instance(
        self, tokens: list[Token], label: str | None, position: _Position | None = None
    ) -> Instance:
        metadata = MetadataField(SstSentence([token.text or "" for token in tokens]))
        return labelled_instance(
            {"tokens": _Text(tokens, position), "metadata": metadata}, label, self.classes
        )

    def _file(self, path: Path, counts: Tally) -> Generator[Instance | InputError]:
        trees = read_trees(path, encoding=self.encoding, split=self.split if self.every_record else None)
        for tree_index, tree in enumerate(trees):
            if isinstance(tree, InputError):
                yield tree
                continue
            instances = list(self._of_tree(path, tree_index, tree, counts))
            self.sampled(instances)
            yield from instances
        check_found({*counts} != {_LEFT_OUT}, f"sentences left to read ({counts})", path)

    def _of_tree(self, path: Path, tree_index: int, tree: Tree, counts: Tally) -> Iterator[Instance]:
        tokens = [Token(word) for word in tree.words]
        shortest = math.inf if self.every_record else self.min_phrase_tokens or math.inf
        for index, phrase in enumerate(tree.phrases):
            if index > 0 and phrase.end - phrase.start < shortest:
                continue
            # A line of predictions needs no label.
            label = None if self.every_record else self._class_of[phrase.label]
            if label is None and not self.every_record:
                counts[_LEFT_OUT] += 1
                continue
            counts[("phrases inside them" if index else "sentences") + (f": {label}" if label else "")] += 1
            position = _Position(path, tree_index, phrase.start, phrase.end)
            yield self._instance(tokens[phrase.start : phrase.end], label, position)


class _Text(TextField):
    """A `TextField` whose words the vocabulary counts only if `counted`: another field may have them, too."""

    def __init__(self, tokens: list[Token], position: _Position | None) -> None:
        super().__init__(tokens)
        self.position, self.counted = position, True

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        if self.counted:
            super().count_vocab_items(counter)


def _inside_others(positions: Iterable[_Position | None]) -> Iterator[bool]:
    """Tells which positions are inside an earlier one; a phrase comes before the phrases inside it."""
    tree, end_of_outer = None, 0
    for position in positions:
        if position is None:
            yield False
            continue
        if (position.file, position.tree) != tree:
            tree, end_of_outer = (position.file, position.tree), 0
        yield position.end <= end_of_outer
        end_of_outer = max(end_of_outer, position.end)
