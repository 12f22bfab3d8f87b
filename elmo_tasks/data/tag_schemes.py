"""
Labelled spans as one tag a token: IOB1, IOB2, BIOES and BIOUL.

A tag is `O`, or a prefix, a hyphen and a label: `B-PER`. Only the first hyphen separates: `B-creative-work`
has the label `creative-work`.

| scheme | prefixes | an entity of one token / of three | source |
| --- | --- | --- | --- |
| IOB1 | B I | I / I I I; B opens an entity right after another of its label | Ramshaw, Marcus 1995 |
| IOB2 | B I | B / B I I | Tjong Kim Sang, Veenstra 1999 |
| BIOES | B I E S | S / B I E | Uchimoto et al. 2000 |
| BIOUL | B I L U | U / B I L | Ratinov, Roth 2009 |

`spelled` reads other spellings: BMES with `M-` for `I-`, types without a prefix, prefixes without a type, and
`B_PER`, `B:PER`, `PER-B` or `PER_B`.
`from_brackets` reads the brackets of CoNLL-2012.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
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
        """The prefixes of a labelled tag: begin and inside, and in BIOES and BIOUL last and unit."""
        return tuple({"BIOES": "BIES", "BIOUL": "BILU"}.get(self.value, "BI"))


class Span(NamedTuple):
    """The tokens `start` to `end - 1` of a sentence, and their label."""

    start: int
    end: int
    label: str


class Tag(NamedTuple):
    """The parts of a tag; `O` has no label."""

    prefix: str
    label: str

    def __str__(self) -> str:
        return f"{self.prefix}-{self.label}" if self.label else self.prefix


@dataclass(eq=False)
class TagError(ValueError):
    """
    A tag that does not exist, or that is not allowed at its position: `position` counts the tokens of the
    sentence, `sentence` the sentences, both from 0. The position of an entity without an end is the last
    token.
    """

    position: int
    found: str
    expected: str
    sentence: int = 0

    def __str__(self) -> str:
        where = f"sentence {self.sentence}, token {self.position}"
        return f"{where}: found {self.found}, expected {self.expected}"


class Evidence(NamedTuple):
    """A token that only one scheme explains: its position, and its tag and the previous one in words."""

    scheme: Scheme
    sentence: int
    position: int
    words: str

    def __str__(self) -> str:
        where = f"sentence {self.sentence}, token {self.position}"
        return f"{where} ({self.words}) looks like {self.scheme.value}"


@dataclass(eq=False)
class MixedSchemeError(ValueError):
    """Two tokens that no single scheme explains: `first` and `second`, in the order of the text."""

    first: Evidence
    second: Evidence

    def __str__(self) -> str:
        return f"mixed tag schemes: {self.first}, but {self.second}"


class Spelling(NamedTuple):
    """Another spelling of tags: its name, if it is a scheme, and the tag of this module for each."""

    scheme: str | None
    tags: dict[str, str]


class Transitions(NamedTuple):
    """
    The tags that may open a sentence (`start`), close it (`end`), and follow one another.

    *Shape:* `start` and `end` `(tags,)`, `transitions` `(tags, tags)` as (from, to), boolean.
    """

    start: torch.Tensor
    end: torch.Tensor
    transitions: torch.Tensor


UNNAMED = "ENTITY"
"""The label of tags that are a prefix alone."""
_TYPE = re.compile(r"(?![A-Z]-)[^\W\d_]\S*[^\W_]")
_OTHER_ORDER = re.compile(r"([BIESLUM])[_:](\S+)|(?![BIESLUM]-)(\S+)[-_]([BIESLUM])")
"""Another separator than a hyphen, or the prefix at the end."""
_BRACKETS = re.compile(r"(?:\(([^\s()*]+))?\*?(\))?")
_OUTSIDE = Tag("O", "")
_ALL_PREFIXES = tuple("BIESLU")
_OPENING = ("B", "S", "U")
_CONTINUING = ("I", "E", "L")
_UNFINISHED = ("B", "I")


@lru_cache(maxsize=1 << 14)
def split_tag(tag: str) -> Tag:
    """Returns prefix and label: `"B-creative-work"` has the label `creative-work`. Nothing is checked."""
    prefix, _, label = tag.partition("-")
    return Tag(prefix, label)


def detect_scheme(sentences: Iterable[Sequence[str]], *, strict: bool = True) -> Scheme:
    """
    Returns the scheme of tagged sentences. Only `to_spans` checks whether all tags obey it.

    An `E-` or `S-` tag means BIOES, `L-` or `U-` BIOUL. Otherwise an `I-` tag that opens an entity means
    IOB1. All else is IOB2. Without `strict`, IOB1 and IOB2 may be mixed: the scheme is that in which more
    entities open, see `repaired`.

    # Raises
    `TagError`: a tag of no scheme. `MixedSchemeError`: tags of both BIOES and BIOUL, or, if `strict`,
    entities that open as only IOB1 allows and others as only IOB2 allows.
    """
    first: dict[Scheme, Evidence] = {}
    counts: Counter[Scheme] = Counter()
    for sentence, tags in enumerate(sentences):
        previous = _OUTSIDE
        for position, text in enumerate(tags):
            tag = _parse_tag(text, _ALL_PREFIXES, position, sentence)
            scheme = _only_scheme(previous, tag)
            if scheme is not None:
                counts[scheme] += 1
                if scheme not in first:
                    first[scheme] = Evidence(scheme, sentence, position, _after(tag, previous, position))
            previous = tag
    if not strict:
        rarer = Scheme.IOB2 if counts[Scheme.IOB2] < counts[Scheme.IOB1] else Scheme.IOB1
        first.pop(rarer, None)
    for pair in ((Scheme.BIOES, Scheme.BIOUL), (Scheme.IOB1, Scheme.IOB2)):
        evidence = sorted((first[each] for each in pair if each in first), key=lambda e: e[1:3])
        if len(evidence) == 2:
            raise MixedSchemeError(*evidence)
        if evidence:
            return evidence[0].scheme
    return Scheme.IOB2


def _only_scheme(previous: Tag, tag: Tag) -> Scheme | None:
    """Returns the only scheme in which `tag` may follow `previous`, or `None` if several have both."""
    if tag.prefix in "ES":
        return Scheme.BIOES
    if tag.prefix in "LU":
        return Scheme.BIOUL
    if not tag.label or tag.label == previous.label:
        return None
    return Scheme.IOB1 if tag.prefix == "I" else Scheme.IOB2


def repaired(tags: Sequence[str], scheme: Scheme) -> tuple[list[str], list[int]]:
    """
    Returns the tags of one sentence in IOB1 or IOB2, and the positions of those that the scheme does not
    allow and that are changed. In IOB1, a `B-` that does not separate two entities of one label becomes `I-`.
    In IOB2, an `I-` that opens an entity becomes `B-`. The entities stay the same.
    """
    wrong, right = ("B", "I") if scheme is Scheme.IOB1 else ("I", "B")
    result = list(tags)
    positions = []
    for position, (before, tag) in enumerate(pairwise(map(split_tag, ["O", *tags]))):
        if tag.prefix == wrong and tag.label not in ("", before.label):
            result[position] = str(Tag(right, tag.label))
            positions.append(position)
    return result, positions


def spelled(tags: Collection[str], scheme: str = "auto") -> Spelling:
    """
    Returns the spelling of a file's different tags; one without tags if they are those of this module, or if
    no single spelling explains all of them. The schemes `BMES` and `IO` allow their spelling alone, `auto`
    any, and others only prefixes alone, and the next one.

    - A prefix alone, if all tags are such: `B` is `B-ENTITY`.
    - A prefix before `_` or `:`, or at the end, if all tags are such: `B_PER` and `PER-B` are `B-PER`.
    - BMES, which has no `L-` or `U-`: `M-PER` is `I-PER`.
    - IO, types without a prefix beside `O`, if no tag has one: `PER` is `I-PER` of IOB1.
    """
    tagged = [tag for tag in tags if tag != "O"]
    if all(tag in (*_ALL_PREFIXES, "M") for tag in tagged):
        return Spelling(None, {tag: f"{'I' if tag == 'M' else tag}-{UNNAMED}" for tag in tagged})
    matches = [_OTHER_ORDER.fullmatch(tag) for tag in tagged]
    if scheme != "IO" and all(matches):
        parts = [(match[1] or match[4], match[2] or match[3]) for match in matches if match]
        plain = (f"{'I' if prefix == 'M' else prefix}-{label}" for prefix, label in parts)
        return Spelling(None, dict(zip(tagged, plain, strict=True)))
    middle = [tag for tag in tagged if tag.startswith("M-")]
    if scheme in ("auto", "BMES") and middle and not any(tag.startswith(("L-", "U-")) for tag in tagged):
        return Spelling("BMES", {tag: f"I{tag[1:]}" for tag in middle})
    if scheme == "IO" or (scheme == "auto" and "O" in tags and not any(map(_is_tag, tagged))):
        return Spelling("IO", {tag: f"I-{tag}" for tag in tagged if _TYPE.fullmatch(tag)})
    return Spelling(None, {})


def has_brackets(tags: Collection[str]) -> bool:
    """Tells whether the tags of a file are the brackets of CoNLL-2012."""
    return any(tag[:1] in ("(", "*") for tag in tags)


def from_brackets(cells: Sequence[str]) -> list[str]:
    """
    Returns the tags in IOB2 of one sentence with brackets: `(PER*`, `*`, `*)` or `(PER)`. `-` is `*`.

    # Raises
    `TagError`: a cell that is no bracket, or a bracket at the wrong position.
    """
    tags, label = [], ""
    for position, cell in enumerate(cells):
        match = _BRACKETS.fullmatch("*" if cell == "-" else cell)
        if match is None or not cell or (match[1] and label) or (match[2] and not (match[1] or label)):
            expected = f"*, or the end of {label}, *)" if label else "(LABEL*, (LABEL) or *"
            raise TagError(position, f"the tag {cell!r}", expected)
        tags.append(f"B-{match[1]}" if match[1] else f"I-{label}" if label else "O")
        label = "" if match[2] else match[1] or label
    if label:
        found = f"the end of the sentence after {cells[-1]!r}"
        raise TagError(len(cells) - 1, found, f"the end of {label}, *)")
    return tags


def _is_tag(text: str) -> bool:
    tag = split_tag(text)
    return text == "O" or (tag.prefix in _ALL_PREFIXES and tag.label != "")


def to_spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Returns the spans of one sentence; a tag that its scheme does not allow there is a `TagError`."""
    spans: list[Span] = []
    prefixes, previous = scheme.prefixes, _OUTSIDE
    for position, text in enumerate(tags):
        tag = _parse_tag(text, prefixes, position)
        if not _may_follow(previous, tag, scheme):
            found, expected = _after(tag, previous, position), _expected(previous, tag, scheme)
            raise TagError(position, found, expected)
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
    """Returns the tags of a sentence. A span that is empty, outside or overlaps is a `ValueError`."""
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


def _check_span(span: Span, previous: Span, length: int) -> None:
    if not 0 <= span.start < span.end <= length:
        raise ValueError(f"found {span}, expected at least one of the tokens 0 to {length - 1}")
    if not span.label:
        raise ValueError(f"found {span}, expected a label")
    if span.start < previous.end:
        raise ValueError(f"found {span}, expected no overlap with {previous}")


def convert(tags: Sequence[str], source: Scheme, target: Scheme) -> list[str]:
    """Returns the tags of the same spans in another scheme; for errors see `to_spans`."""
    return from_spans(to_spans(tags, source), len(tags), target)


def allowed_transitions(tags: Sequence[str], scheme: Scheme) -> Transitions:
    """Returns the transitions in the order of `tags`. A tag that the scheme lacks is a `TagError`."""
    parsed = [_parse_tag(text, scheme.prefixes, index) for index, text in enumerate(tags)]
    pairs = [[_may_follow(before, after, scheme) for after in parsed] for before in parsed]
    return Transitions(
        start=torch.tensor([_may_follow(_OUTSIDE, tag, scheme) for tag in parsed], dtype=torch.bool),
        end=torch.tensor([_may_follow(tag, _OUTSIDE, scheme) for tag in parsed], dtype=torch.bool),
        transitions=torch.tensor(pairs, dtype=torch.bool).view(len(tags), len(tags)),
    )


def _may_follow(previous: Tag, tag: Tag, scheme: Scheme) -> bool:
    """Returns whether `tag` may follow `previous`; the boundaries of a sentence count as `O`."""
    if scheme is Scheme.IOB1:
        return tag.prefix != "B" or tag.label == previous.label
    if scheme is Scheme.IOB2:
        return tag.prefix != "I" or tag.label == previous.label
    if previous.prefix in _UNFINISHED:
        return tag.prefix in _CONTINUING and tag.label == previous.label
    return tag.prefix not in _CONTINUING


def _expected(previous: Tag, tag: Tag, scheme: Scheme) -> str:
    """Describes the tags that the scheme allows after `previous`, in place of `tag`."""
    if scheme is Scheme.IOB1:
        return f"I-{tag.label} (in IOB1 B- only separates two entities of the same label)"
    if scheme is Scheme.IOB2:
        return f"B-{tag.label} (in IOB2 I- only continues an entity of the same label)"
    last, unit = scheme.prefixes[2:]
    if previous.prefix in _UNFINISHED:
        return f"I-{previous.label} or {last}-{previous.label} ({scheme.value})"
    return f"B-{tag.label}, {unit}-{tag.label} or O ({scheme.value})"


def _parse_tag(text: str, prefixes: tuple[str, ...], position: int, sentence: int = 0) -> Tag:
    """Splits a tag and checks that it exists."""
    tag = split_tag(text)
    if text == "O" or (tag.label and tag.prefix in prefixes):
        return tag
    kinds = ", ".join(f"{prefix}-LABEL" for prefix in prefixes)
    raise TagError(position, f"the tag {text!r}", f"O or one of {kinds}", sentence)


def _after(tag: Tag, previous: Tag, position: int) -> str:
    return f"{tag} after {previous}" if position else f"{tag} at the start of the sentence"
