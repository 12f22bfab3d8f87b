"""
The arguments of a predicate, as the scorer of the CoNLL-2005 shared task reads them (`srl-eval.pl`,
2005-04-21, https://www.cs.upc.edu/~srlconll/soft.html).

A span labelled C-X continues the last argument X before it, which then has several spans; without an X before
it, it is an X. R-X, a reference to an argument, is a label like others. V is the predicate itself.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from elmo_tasks.data.tag_schemes import Scheme, Span, from_spans, to_spans

CONTINUATION = "C-"
PREDICATE = "V"


class Argument(NamedTuple):
    """A label, and the words `[start, end)` of each part, from left to right."""

    label: str
    spans: tuple[tuple[int, int], ...]


def from_tags(tags: Sequence[str]) -> list[Argument]:
    """
    Returns the arguments in the order of their first words.

    # Raises
    `TagError`: tags that are not IOB2.
    """
    arguments: list[tuple[str, list[tuple[int, int]]]] = []
    latest: dict[str, list[tuple[int, int]]] = {}
    for start, end, label in to_spans(tags, Scheme.IOB2):
        role = label.removeprefix(CONTINUATION)
        if role != label and role in latest:
            latest[role].append((start, end))
        else:
            latest[role] = [(start, end)]
            arguments.append((role, latest[role]))
    return [Argument(role, tuple(spans)) for role, spans in arguments]


def to_tags(arguments: Iterable[Argument], length: int) -> list[str]:
    """
    Returns the IOB2 tags of a sentence of `length` words.

    # Raises
    `ValueError`: a span that is empty, outside the sentence, without a label, or overlaps another; or
    arguments that tags cannot tell apart.
    """
    expected = sorted(arguments, key=lambda argument: argument.spans)
    spans = [
        Span(start, end, CONTINUATION + label if part else label)
        for label, parts in expected
        for part, (start, end) in enumerate(parts)
    ]
    tags = from_spans(spans, length, Scheme.IOB2)
    if from_tags(tags) != expected:
        raise ValueError(
            f"found {expected}, expected arguments that C- labels can tell apart: the parts of each from "
            "left to right, without another argument of its label between them"
        )
    return tags


def description(words: Sequence[str], tags: Sequence[str]) -> str:
    """
    Returns the words with each labelled span in brackets, such as `[ARG0: Ana] [V: flew]`.

    # Raises
    `TagError`: tags that are not IOB2.
    """
    parts, place = [], 0
    for start, end, label in to_spans(tags, Scheme.IOB2):
        parts += [*words[place:start], f"[{label}: {' '.join(words[start:end])}]"]
        place = end
    return " ".join([*parts, *words[place:]])
