"""
What an instance knows beside its tensors.

The class of an instance as a field that knows all classes.

Tags of labelled spans, as a field that knows what a type of span is.
"""

import logging
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

from allennlp.common.checks import ConfigurationError
from allennlp.data import Field, Instance, Vocabulary
from allennlp.data.fields import LabelField, SequenceLabelField

from elmo_tasks.data.tag_schemes import split_tag
from elmo_tasks.data.tokenization import Words


# ==== data.metadata
class Metadata:
    """
    Base class of the dataclasses in the readers' `MetadataField`: no dict or list, which AllenNLP would walk
    through.
    """

    def to_json(self) -> dict[str, Any]:
        """The fields by their names: what `allennlp evaluate --predictions-output-file` writes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {
            name: value._asdict() if isinstance(value, Words) else value for name, value in values.items()
        }


# ==== data.label_field
def check_label(label: str | None, classes: Sequence[str]) -> None:
    """
    # Raises
    `ConfigurationError`: there is a label, and it is none of `classes`.
    """
    if label is not None and label not in classes:
        raise ConfigurationError(f"found the label {label!r}, expected one of {', '.join(classes)}")


class ClosedLabelField(LabelField):
    """
    A `LabelField` of one of `classes`: all of them get into the vocabulary, in this order, also those that
    the training data does not have.

    # Raises
    `ConfigurationError`, when indexed: the vocabulary does not know the class.
    """

    def __init__(self, label: str, classes: Sequence[str]) -> None:
        super().__init__(label)
        self._classes = classes

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        # The vocabulary sorts by count, equal counts by first appearance.
        for name in self._classes:
            counter[self._label_namespace][name] += 1

    def index(self, vocab: Vocabulary) -> None:
        known = vocab.get_token_to_index_vocabulary(self._label_namespace)
        if self.label not in known:
            raise ConfigurationError(
                f"found the label {self.label!r}, expected one that the vocabulary knows: {', '.join(known)}"
            )
        super().index(vocab)


def classified(fields: dict[str, Field], label: str | None, classes: Sequence[str]) -> Instance:
    """The instance of `fields`, and of the field `label` where there is one."""
    return Instance(fields if label is None else fields | {"label": ClosedLabelField(label, classes)})


# ==== data.tag_field
logger = logging.getLogger(__name__)

_PREFIXES = "BILU"


class TagField(SequenceLabelField):
    """
    The BIOUL tags of a `TextField`; otherwise a `SequenceLabelField`.

    - A type brings all four of its tags into the vocabulary, so that I-MISC is known even where no
      MISC of the training data has three tokens. `O` is always the first tag, and the four of a type
      stand together.
    - A tag that the vocabulary does not know (a type that the training data does not have) becomes
      `O`, with one warning for each type. Its spans remain in the gold tags of the instance, and
      count as missed there.

    # Raises
    `ConfigurationError`, when indexed: the vocabulary does not know `O`.
    """

    _warned: ClassVar[set[tuple[str, str]]] = set()  # namespaces and types

    def __eq__(self, other: object) -> bool:
        """
        Compares the tags alone: the attackers of AllenNLP compare predictions for texts that they change.
        """
        return isinstance(other, TagField) and self.labels == other.labels

    def count_vocab_items(self, counter: dict[str, dict[str, int]]) -> None:
        counts = counter[self._label_namespace]
        # The vocabulary sorts by count, equal counts by first appearance: no type may pass "O".
        counts["O"] += len(self.labels)
        types = [label for _, label in map(split_tag, self.labels) if label]
        for label in sorted(types):
            for prefix in _PREFIXES:
                counts[f"{prefix}-{label}"] += 1

    def index(self, vocab: Vocabulary) -> None:
        known: dict[str, int] = vocab.get_token_to_index_vocabulary(self._label_namespace)
        if "O" not in known:
            raise ConfigurationError(
                f"the vocabulary's namespace {self._label_namespace!r} has no tag 'O', but "
                f"{sorted(known)}: it was not made from tagged sentences"
            )
        self._indexed_labels = [known.get(tag, known["O"]) for tag in self.labels]
        for tag in self.labels:
            if tag not in known:
                self._warn(tag)

    def _warn(self, tag: str) -> None:
        label = split_tag(tag).label
        if (self._label_namespace, label) not in self._warned:
            self._warned.add((self._label_namespace, label))
            logger.warning(
                "the vocabulary does not know %s: spans of type %s count as O in the loss, and "
                "as missed in the metric",
                tag,
                label,
            )
