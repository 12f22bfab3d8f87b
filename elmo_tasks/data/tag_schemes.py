"""
Labelled spans as one tag a token: IOB1, IOB2, BIOES and BIOUL.

A tag is `O`, or a prefix, a hyphen and a label: `B-PER`. Only the first hyphen separates, so that
`B-creative-work` is a `creative-work`.

| scheme | prefixes | an entity of one token / of three | source |
| --- | --- | --- | --- |
| IOB1 | B I | I / I I I; B opens one that touches another of its label | Ramshaw, Marcus 1995 |
| IOB2 | B I | B / B I I | Tjong Kim Sang, Veenstra 1999 |
| BIOES | B I E S | S / B I E | Uchimoto et al. 2000 |
| BIOUL | B I L U | U / B I L | Ratinov, Roth 2009 |
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch


class Scheme(Enum):
    """A tag scheme; `Scheme("IOB2")` finds it by name."""

    IOB1 = "IOB1"
    IOB2 = "IOB2"
    BIOES = "BIOES"
    BIOUL = "BIOUL"

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of a labelled tag: begin, inside and, where there are such, last and unit."""
        return tuple({"BIOES": "BIES", "BIOUL": "BILU"}.get(self.value, "BI"))


class Span(NamedTuple):
    """The tokens `start` to `end - 1` of a sentence, and what they are."""

    start: int
    end: int
    label: str


class Transitions(NamedTuple):
    """Which of `n` tags may open a sentence (`start`), close it (`end`) and follow one another.

    *Shape:* `start` and `end` `(n,)`, `transitions` `(n, n)` as (from, to), boolean.
    """

    start: torch.Tensor
    end: torch.Tensor
    transitions: torch.Tensor


class Evidence(NamedTuple):
    """A token that only one scheme explains, in words: its tag and what stands before it."""

    scheme: Scheme
    sentence: int
    position: int
    words: str


class TagError(ValueError):
    """
    A tag that does not exist, or that must not stand where it stands.

    `position` counts the tokens of the sentence, `sentence` the sentences given, both from 0;
    `found` and `expected` are in words. An entity without its end is reported at the last token.
    """

    def __init__(self, position: int, found: str, expected: str, sentence: int = 0) -> None:
        super().__init__(position, found, expected, sentence)
        self.position = position
        self.found = found
        self.expected = expected
        self.sentence = sentence

    def __str__(self) -> str:
        where = f"sentence {self.sentence}, token {self.position}"
        return f"{where}: found {self.found}, expected {self.expected}"


class MixedSchemeError(ValueError):
    """Two tokens that no single scheme explains: `first` and `second`, in the order of the text."""

    def __init__(self, first: Evidence, second: Evidence) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second

    def __str__(self) -> str:
        first, second = (
            f"sentence {e.sentence}, token {e.position} ({e.words}) looks like {e.scheme.value}"
            for e in (self.first, self.second)
        )
        return f"mixed tag schemes: {first}, but {second}"


class Tag(NamedTuple):
    """A tag taken apart; `O` has no label."""

    prefix: str
    label: str

    def __str__(self) -> str:
        return f"{self.prefix}-{self.label}" if self.label else self.prefix


_OUTSIDE = Tag("O", "")
_ALL_PREFIXES = tuple("BIESLU")
_OPENING = ("B", "S", "U")
_CONTINUING = ("I", "E", "L")
_UNFINISHED = ("B", "I")


@lru_cache(maxsize=1 << 14)
def split_tag(tag: str) -> Tag:
    """`"B-creative-work"` as prefix and label, `"O"` as `("O", "")`; nothing is checked."""
    prefix, _, label = tag.partition("-")
    return Tag(prefix, label)


def detect_scheme(sentences: Iterable[Sequence[str]], *, strict: bool = True) -> Scheme:
    """
    The scheme of tagged sentences.

    An `E-` or `S-` tag means BIOES, `L-` or `U-` BIOUL; without them an `I-` tag that opens an
    entity means IOB1. Everything else is IOB2. Whether the tags obey the scheme throughout is for
    `to_spans` to tell. Without `strict`, it is IOB1 too where fewer entities are opened as in IOB2
    alone, see `as_iob1`.

    # Raises
    `TagError`: a tag of no scheme at all. `MixedSchemeError`: tags of BIOES and of BIOUL, or
    entities opened as in IOB1 and others as in IOB2.
    """
    seen: dict[Scheme, Evidence] = {}
    counts: Counter[Scheme] = Counter()
    for number, tags in enumerate(sentences):
        previous = _OUTSIDE
        for position, text in enumerate(tags):
            tag = _parse_tag(text, _ALL_PREFIXES, position, sentence=number)
            scheme = _only_scheme(previous, tag)
            if scheme is not None:
                counts[scheme] += 1
                if scheme not in seen:
                    words = _after(tag, previous, position)
                    seen[scheme] = Evidence(scheme, number, position, words)
            previous = tag
    if not strict and counts[Scheme.IOB2] < counts[Scheme.IOB1]:
        seen.pop(Scheme.IOB2, None)
    return _decide(seen)


def as_iob1(tags: Sequence[str]) -> tuple[list[str], list[int]]:
    """
    The tags of one sentence, with `I-` in the place of each `B-` that separates no two entities of one label,
    as IOB1 has it, and where these stand. Nothing else is checked.
    """
    places = [
        position
        for position, (before, tag) in enumerate(pairwise(map(split_tag, ["O", *tags])))
        if tag.prefix == "B" and tag.label not in ("", before.label)
    ]
    read = list(tags)
    for position in places:
        read[position] = str(Tag("I", split_tag(tags[position]).label))
    return read, places


def to_spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """
    The spans of one sentence, from left to right.

    # Raises
    `TagError`: a tag that the scheme does not know, or not in this place.
    """
    spans: list[Span] = []
    prefixes, previous = scheme.prefixes, _OUTSIDE
    for position, text in enumerate(tags):
        tag = _parse_tag(text, prefixes, position)
        if not _may_follow(previous, tag, scheme):
            raise TagError(position, _after(tag, previous, position), _expected(previous, tag, scheme))
        if tag.label and (tag.prefix in _OPENING or tag.label != previous.label):
            spans.append(Span(position, position + 1, tag.label))
        elif tag.label:
            spans[-1] = spans[-1]._replace(end=position + 1)
        previous = tag
    if not _may_follow(previous, _OUTSIDE, scheme):
        found = f"the end of the sentence after {previous}"
        raise TagError(len(tags) - 1, found, _expected(previous, _OUTSIDE, scheme))
    return spans


def from_spans(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """
    The tags of a sentence of `length` tokens.

    # Raises
    `ValueError`: a span that is empty, outside the sentence, unlabelled, or over another.
    """
    begin, inside = "B", "I"
    last, unit = scheme.prefixes[2:] or (inside, begin)
    tags = ["O"] * length
    previous = Span(0, 0, "")
    for span in sorted(spans):
        _check_span(span, previous, length)
        if scheme is Scheme.IOB1:
            touches = span.start == previous.end and span.label == previous.label
            begin = unit = "B" if touches else "I"
        middle = inside * (span.end - span.start - 2)
        prefixes = unit if span.end - span.start == 1 else begin + middle + last
        tags[span.start : span.end] = [f"{prefix}-{span.label}" for prefix in prefixes]
        previous = span
    return tags


def convert(tags: Sequence[str], source: Scheme, target: Scheme) -> list[str]:
    """
    The same spans in another scheme.

    # Raises
    `TagError`, as `to_spans`.
    """
    return from_spans(to_spans(tags, source), len(tags), target)


def allowed_transitions(tags: Sequence[str], scheme: Scheme) -> Transitions:
    """
    What a decoder over these tags (a CRF's vocabulary, in its order) may produce.

    # Raises
    `TagError`: a tag that the scheme does not know; its `position` is the index in `tags`.
    """
    parsed = [_parse_tag(text, scheme.prefixes, index) for index, text in enumerate(tags)]
    pairs = [[_may_follow(before, after, scheme) for after in parsed] for before in parsed]
    return Transitions(
        start=torch.tensor([_may_follow(_OUTSIDE, tag, scheme) for tag in parsed], dtype=torch.bool),
        end=torch.tensor([_may_follow(tag, _OUTSIDE, scheme) for tag in parsed], dtype=torch.bool),
        transitions=torch.tensor(pairs, dtype=torch.bool).view(len(tags), len(tags)),
    )


def _may_follow(previous: Tag, tag: Tag, scheme: Scheme) -> bool:
    """Whether `scheme` has `tag` behind `previous`; the borders of a sentence count as `O`."""
    if scheme is Scheme.IOB1:
        return tag.prefix != "B" or tag.label == previous.label
    if scheme is Scheme.IOB2:
        return tag.prefix != "I" or tag.label == previous.label
    if previous.prefix in _UNFINISHED:
        return tag.prefix in _CONTINUING and tag.label == previous.label
    return tag.prefix not in _CONTINUING


def _expected(previous: Tag, tag: Tag, scheme: Scheme) -> str:
    """What `scheme` has in the place of a `tag` that may not follow `previous`."""
    if scheme is Scheme.IOB1:
        return f"I-{tag.label} (in IOB1 B- only separates two entities of the same label)"
    if scheme is Scheme.IOB2:
        return f"B-{tag.label} (in IOB2 I- only continues an entity of the same label)"
    last, unit = scheme.prefixes[2:]
    if previous.prefix in _UNFINISHED:
        return f"I-{previous.label} or {last}-{previous.label} ({scheme.value})"
    return f"B-{tag.label}, {unit}-{tag.label} or O ({scheme.value})"


def _parse_tag(text: str, prefixes: tuple[str, ...], position: int, sentence: int = 0) -> Tag:
    """A tag taken apart and checked by itself."""
    tag = split_tag(text)
    if text == "O" or (tag.label and tag.prefix in prefixes):
        return tag
    kinds = ", ".join(f"{prefix}-LABEL" for prefix in prefixes)
    raise TagError(position, f"the tag {text!r}", f"O or one of {kinds}", sentence)


def _after(tag: Tag, previous: Tag, position: int) -> str:
    return f"{tag} after {previous}" if position else f"{tag} at the start of the sentence"


def _only_scheme(previous: Tag, tag: Tag) -> Scheme | None:
    """The one scheme that has `tag` behind `previous`, if it tells anything."""
    if tag.prefix in "ES":
        return Scheme.BIOES
    if tag.prefix in "LU":
        return Scheme.BIOUL
    if not tag.label or tag.label == previous.label:
        return None
    return Scheme.IOB1 if tag.prefix == "I" else Scheme.IOB2


def _decide(seen: dict[Scheme, Evidence]) -> Scheme:
    for pair in ((Scheme.BIOES, Scheme.BIOUL), (Scheme.IOB1, Scheme.IOB2)):
        present = [scheme for scheme in pair if scheme in seen]
        if len(present) == 2:
            evidence = sorted((seen[s] for s in pair), key=lambda e: (e.sentence, e.position))
            raise MixedSchemeError(*evidence)
        if present:
            return present[0]
    return Scheme.IOB2


def _check_span(span: Span, previous: Span, length: int) -> None:
    if not 0 <= span.start < span.end <= length:
        raise ValueError(f"found {span}, expected at least one of the tokens 0 to {length - 1}")
    if not span.label:
        raise ValueError(f"found {span}, expected a label")
    if span.start < previous.end:
        raise ValueError(f"found {span}, expected no overlap with {previous}")
