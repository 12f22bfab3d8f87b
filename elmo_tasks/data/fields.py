"""Fields of instances: metadata, the label of a closed set of classes, and the tags of spans."""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from allennlp.common.checks import ConfigurationError
from allennlp.data import Field, Instance, Vocabulary
from allennlp.data.fields import LabelField, MetadataField, MultiLabelField, SequenceLabelField

from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.tag_schemes import split_tag
from elmo_tasks.data.tokenization import Words

logger = logging.getLogger(__name__)


class Metadata:
    """
    Base class of the dataclasses in a `MetadataField`. AllenNLP would walk through a dict or a list; models
    of allennlp-models find the values by their own names, as in a dict.
    """

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(f"{name!r} is not in the metadata, a {type(self).__name__}") from None

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a value by its name, as a dict does; the default in place of none."""
        try:
            value = self[name]
        except KeyError:
            return default
        return default if value is None else value

    ids: Mapping[str, Any] = MappingProxyType({})
    """The keys by which a file names this record, such as `id`; predictions repeat them."""
    row: Mapping[str, Any] | None = None
    """All values of a record to predict, if it has columns; a table of predictions repeats them."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields by name, as `allennlp evaluate --predictions-output-file` writes them."""
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in names}
        return {name: v._asdict() if isinstance(v, Words) else v for name, v in values.items()}


@dataclasses.dataclass
class NoPrediction(Metadata):
    """The metadata of an instance for a record that has no prediction, and why."""

    reason: str


def no_prediction(error: InputError) -> Instance:
    """Returns the instance of a bad record, which has a line among the predictions, but no prediction."""
    metadata = NoPrediction(str(error))
    metadata.ids, metadata.row = error.ids or {}, error.row
    return Instance({"metadata": MetadataField(metadata)})


class _OfClasses:
    """Brings all classes into the vocabulary, in their order, even if the training data lacks some."""

    _classes: Sequence[str]
    _label_namespace: str

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        # The vocabulary sorts by count, and equal counts by first appearance.
        for name in self._classes:
            counter[self._label_namespace][name] += 1


class ClosedLabelField(_OfClasses, LabelField):
    """
    A label out of `classes`. All classes enter the vocabulary, in this order, even if the training data lacks
    some. A class that a vocabulary does not have is a `ConfigurationError` when indexed.
    """

    def __init__(self, label: str, classes: Sequence[str]) -> None:
        super().__init__(label)
        self._classes = classes

    def index(self, vocab: Vocabulary) -> None:
        check_label(str(self.label), list(vocab.get_token_to_index_vocabulary(self._label_namespace)))
        super().index(vocab)


class ClosedLabelsField(_OfClasses, MultiLabelField):
    """Any number of `classes`, otherwise a `ClosedLabelField`. *Shape:* `(classes,)`, with 0 and 1."""

    def __init__(self, labels: Sequence[str], classes: Sequence[str]) -> None:
        super().__init__(labels)
        self._classes = classes

    def index(self, vocab: Vocabulary) -> None:
        for label in self.labels:
            check_label(str(label), list(vocab.get_token_to_index_vocabulary(self._label_namespace)))
        super().index(vocab)


def check_label(label: str | None, classes: Sequence[str]) -> None:
    """Raises `ConfigurationError` unless the label is `None` or one of `classes`."""
    if label is not None and label not in classes:
        raise ConfigurationError(f"{label!r} is not one of the labels {', '.join(classes)}")


def labelled_instance(
    fields: dict[str, Field], label: str | Sequence[str] | None, classes: Sequence[str]
) -> Instance:
    """Returns the instance of `fields`, with a field `label` for a label or several, but not for `None`."""
    if label is None:
        return Instance(fields)
    field = ClosedLabelField(label, classes) if isinstance(label, str) else ClosedLabelsField(label, classes)
    return Instance(fields | {"label": field})


class TagField(SequenceLabelField):
    """
    The BIOUL tags of a `TextField`; otherwise a `SequenceLabelField`.

    - Each type brings all four of its tags into the vocabulary, so that I-MISC has an id even if no MISC of
      the training data has three tokens. `O` is always the first tag, and the four tags of a type stand
      together.
    - A tag that the vocabulary lacks (of a type that the training data lacks) becomes `O`, with a warning.
      Its spans remain in the gold tags of the instance, and count there as missed.
    """

    prefixes: ClassVar[str] = "BILU"
    """The prefixes that each type brings into the vocabulary."""
    warn: Callable[..., object] = logger.warning
    """Logs a warning; a `TaskReader` sets its own, which gives each warning once."""

    def __eq__(self, other: object) -> bool:
        """Compares the tags alone: AllenNLP's attackers compare predictions of texts that they change."""
        return isinstance(other, TagField) and self.labels == other.labels

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        counts = counter[self._label_namespace]
        # The vocabulary sorts by count, and equal counts by first appearance: no type may pass "O".
        counts["O"] += len(self.labels)
        for label in sorted(label for _, label in map(split_tag, self.labels) if label):
            for prefix in self.prefixes:
                counts[f"{prefix}-{label}"] += 1

    def index(self, vocab: Vocabulary) -> None:
        ids: dict[str, int] = vocab.get_token_to_index_vocabulary(self._label_namespace)
        self._indexed_labels = [ids.get(tag, ids["O"]) for tag in self.labels]
        for tag in self.labels:
            if tag not in ids:
                self.warn(
                    "the vocabulary does not have the type %s: its spans count as O in the loss, and as "
                    "missed in the metric",
                    split_tag(tag).label,
                )
