"""The class of an instance as a field that knows all classes."""

from collections.abc import Sequence

from allennlp.common.checks import ConfigurationError
from allennlp.data import Field, Instance, Vocabulary
from allennlp.data.fields import LabelField


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
