"""The results of the tasks as `load` returns them."""

from typing import NamedTuple


class Entity(NamedTuple):
    """An entity, with its characters `[start, end)` in the text."""

    text: str
    type: str
    start: int
    end: int
    probability: float


class Label(NamedTuple):
    """A class, `None` for a text without words, and the probabilities by class."""

    label: str | None
    probabilities: dict[str, float]


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


class Mention(NamedTuple):
    """A mention of a cluster, with its characters `[start, end)` in the text."""

    text: str
    start: int
    end: int


class Answer(NamedTuple):
    """An answer, with its characters `[start, end)` in the passage; the text is empty if there is none."""

    text: str
    start: int | None
    end: int | None
    probability: float | None
