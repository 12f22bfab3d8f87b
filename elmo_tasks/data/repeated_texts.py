"""Texts that several records of data have, with one label or more, or that other data have, too."""

from collections.abc import Hashable, Iterator

from allennlp.data import Instance
from allennlp.data.fields import LabelField, MultiLabelField, SequenceLabelField

from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.reader import texts_of

Records = list[tuple[int, Hashable]]
_FIRST = 500


def text_of(instance: Instance) -> str:
    """Returns the words of all texts of an instance."""
    return " ".join([token.text or "" for field in texts_of([instance]) for token in field.tokens])


class RecordTexts:
    """The texts of records, as hashes, and their labels: a class or several, or the tags of the words."""

    def __init__(self) -> None:
        self.records: Records = []
        """The hash of each record's text, or of its pair, and its label; `None` if it has none."""
        self.first: list[str] = []
        """The first texts."""
        self._first_labels: dict[int, Hashable] = {}
        self._several: dict[int, str] = {}

    def add(self, instance: Instance) -> None:
        text = text_of(instance)
        key, label = hash(text), None
        for field in instance.fields.values():
            if isinstance(field, LabelField):
                label = field.label
            elif isinstance(field, SequenceLabelField):
                label = tuple(field.labels)
            elif isinstance(field, MultiLabelField):
                label = tuple(sorted(field.labels))
        self.records.append((key, label))
        if len(self.first) < _FIRST:
            self.first.append(text)
        if self._first_labels.setdefault(key, label) != label:
            self._several[key] = text

    def warnings(self) -> Iterator[str]:
        """Yields the numbers of texts with different labels, and of records whose text is that of another."""
        if self._several:
            example = shorten(next(iter(self._several.values())))
            yield f"{len(self._several):,} texts have different labels, such as {example!r}"
        if repeated := len(self.records) - len(self._first_labels):
            yield f"{repeated:,} of the {len(self.records):,} records repeat the text of another"
