"""The base of the tasks' results, their values as `load` returns them, and the names of labels in words."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from allennlp.common import JsonDict


class TaskResult:
    """
    Base class of the dataclass in which a task keeps its result for one input. The line of `allennlp predict`
    and the value of `load` are both made of it.
    """

    @property
    def value(self) -> Any:
        """The result as `load` returns it: by default the JSON object."""
        return self.to_json()

    @property
    def label_names(self) -> dict[str, str]:
        """The names in words of the labels that the result has, or may have; without those that have none."""
        return {}

    def to_json(self) -> JsonDict:
        """Returns the JSON object of `allennlp predict`: by default the fields, in their order."""
        return dict(vars(self))

    def above(self, min_probability: float) -> Self:
        """Returns the result without what has a lower probability; only for results with probabilities."""
        raise NotImplementedError


class Context(NamedTuple):
    """The texts of an input by their fields, and the colours of labels of the model that read it."""

    texts: Mapping[str, str]
    colours: Mapping[str, int]


class Shown:
    """A value of `load`, which a notebook shows with the marks of the page, if it has its `context`."""

    context: Context | None = None

    @staticmethod
    def to_html(values: Sequence[Any]) -> str:
        """Returns the HTML of values with their contexts; the suite gives it."""
        raise NotImplementedError

    def _repr_html_(self) -> str | None:
        return self.to_html([self]) if self.context else None


Value = TypeVar("Value")


class Predictions(list[Value]):
    """The list of `predict_batch`, which a notebook shows value by value."""

    def _repr_html_(self) -> str | None:
        has_contexts = all(isinstance(value, Shown) and value.context for value in self)
        return Shown.to_html(self) if self and has_contexts else None


class Entity(NamedTuple):
    """An entity, with its characters `[start, end)` in the text."""

    text: str
    type: str
    start: int
    end: int
    probability: float


class Entities(Shown, list[Entity]):
    """The entities of a text."""


class _Label(NamedTuple):
    label: str | None
    probabilities: dict[str, float]


class Label(Shown, _Label):
    """A class, `None` for a text without words or below `min_probability`, and all probabilities by class."""


class LabelResult(TaskResult):
    """Base class of the results whose value is a `Label`."""

    label: str | None
    probabilities: dict[str, float]

    @property
    def value(self) -> Label:
        return Label(self.label, self.probabilities)

    def above(self, min_probability: float) -> Self:
        """Returns the result with the label `None` if no class has the probability."""
        result = copy(self)
        if max(self.probabilities.values(), default=0.0) < min_probability:
            result.label = None
        return result

    @property
    def label_names(self) -> dict[str, str]:
        return label_names(self.probabilities)


class _Labels(NamedTuple):
    labels: list[str]
    probabilities: dict[str, float]


class Labels(Shown, _Labels):
    """The classes of a text, any number of them, and the probability of each class."""


class Argument(NamedTuple):
    """
    An argument of a predicate, with the characters `[start, end)` of its parts in the text; most have one.
    The label `V` is the predicate's own.
    """

    label: str
    text: str
    spans: list[tuple[int, int]]


class Predicate(NamedTuple):
    """A predicate, its arguments, and its characters `[start, end)` in the text."""

    text: str
    arguments: list[Argument]
    start: int
    end: int


class Predicates(Shown, list[Predicate]):
    """The predicates of a text, and the characters `[start, end)` of their sentences, by their own start."""

    def __init__(self, predicates: Iterable[Predicate], sentences: Mapping[int, tuple[int, int]]) -> None:
        super().__init__(predicates)
        self.sentences = sentences


class Mention(NamedTuple):
    """A mention of a cluster, with its characters `[start, end)` in the text."""

    text: str
    start: int
    end: int


class Clusters(Shown, list[list[Mention]]):
    """The clusters of a text."""


class _Answer(NamedTuple):
    text: str
    start: int | None
    end: int | None
    probability: float | None


class Answer(Shown, _Answer):
    """An answer, with its characters `[start, end)` in the passage; the text is empty if there is none."""


class SentenceVector(NamedTuple):
    """
    A sentence's words; its vector, for cosines; and scores of the labels that the encoder has learned, which
    are further features for a classifier. Both are float32, and zeros if it has no words.
    """

    tokens: list[str]
    vector: np.ndarray
    scores: np.ndarray


_NAMES = {
    "PER": "person",
    "LOC": "place",
    "ORG": "organization",
    "MISC": "other name",
    "GPE": "country, state or city",
    "FAC": "building, road or bridge",
    "NORP": "nationality, religion or party",
    "V": "the predicate",  # of `elmo:predicates`
}
_SENTIMENTS = {"0": "very negative", "1": "negative", "2": "neutral", "3": "positive", "4": "very positive"}
"""The classes of SST-5."""


def label_names(labels: Collection[str]) -> dict[str, str]:
    if _SENTIMENTS.keys() == set(labels):
        return _SENTIMENTS
    return {label: _NAMES[label] for label in labels if label in _NAMES}
