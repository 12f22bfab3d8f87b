"""What is marked of each task's answer: filters of its template, for `entities` and `spans`."""

from collections.abc import Iterator
from typing import Any

from allennlp.common import JsonDict

Mark = dict[str, Any]
Place = tuple[int, int, str]


def named(entities: list[JsonDict]) -> Iterator[Mark]:
    """Entities with their probabilities."""
    for entity in entities:
        number = f"{entity['probability']:.2f}"
        yield {"label": entity["type"], "number": number, **_characters(entity)}


def answered(result: JsonDict) -> Iterator[Mark]:
    """The answer in the passage, if there is one."""
    if result["char_start"] is not None:
        number = f"{result['probability']:.2f}"
        yield {"label": "answer", "number": number, **_characters(result)}


def arguments(frame: list[JsonDict]) -> Iterator[Place]:
    """All parts of the arguments of a predicate, that of the predicate too."""
    for argument in frame:
        for start, end in argument["spans"]:
            yield start, end, argument["label"]


def mentions(clusters: list[list[list[int]]]) -> Iterator[Place]:
    """The mentions of all clusters, by the numbers of the clusters."""
    for number, cluster in enumerate(clusters):
        for first, last in cluster:
            yield first, last + 1, str(number)


def _characters(place: JsonDict) -> Mark:
    return {"start": place["char_start"], "end": place["char_end"]}


FILTERS = {filter_.__name__: filter_ for filter_ in (named, answered, arguments, mentions)}
