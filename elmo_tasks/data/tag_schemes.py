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

`TagReader` finds the scheme of a file, and reads other spellings: BMES with `M-` for `I-`, types without a
prefix, prefixes without a type, `B_PER`, `B:PER`, `PER-B` or `PER_B`, and the brackets of CoNLL-2012.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
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
    """A tag that does not exist, or that is not allowed at its position, from 0."""

    position: int
    problem: str

    def __str__(self) -> str:
        return f"token {self.position}: {self.problem}"


class MixedSchemeError(TagError):
    """A tag of one scheme among tags of another."""


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
_SEVERAL = re.compile(r"[BIESLUM]-\S+[,;|][BIESLUM]-\S+")
_NAMES = {"BMES": Scheme.BIOES, "IO": Scheme.IOB1}
_ALL_PREFIXES = tuple("BIESLUM")
_OWN_PREFIXES = {"E": Scheme.BIOES, "S": Scheme.BIOES, "L": Scheme.BIOUL, "U": Scheme.BIOUL}
_OPENING = ("B", "S", "U")
_CONTINUING = ("I", "E", "L")
_UNFINISHED = ("B", "I")


@lru_cache(maxsize=1 << 14)
def split_tag(tag: str) -> Tag:
    """Returns prefix and label, unchecked. Several tags together, such as `B-LOC,B-ORG`, have no label."""
    if _SEVERAL.fullmatch(tag):
        return Tag(tag, "")
    prefix, _, label = tag.partition("-")
    return Tag(prefix, label)


class TagReader:
    """
    Reads the entities of a file from the tags of its sentences, one sentence after another.

    The first tags other than `O` settle the spelling and the scheme: an `E-` or `S-` tag means BIOES, `L-` or
    `U-` BIOUL, and others IOB1 or IOB2. A later tag of another scheme is an error. IOB1 and IOB2 may be mixed
    unless `strict`: the entities are the same in both, since each `B-` and each `I-` after another label
    opens one. `scheme` then is the scheme that allows more of them, and `misfits` counts the others.

    # Parameters

    name : IOB1, IOB2, BIOES, BIOUL, BMES, IO (types without a prefix), or `auto`.
    strict : whether an entity that opens as its scheme does not allow is an error.
    """

    def __init__(self, name: str = "auto", *, strict: bool = False) -> None:
        self.name, self.strict = name, strict
        self._scheme = None if name == "auto" else _NAMES.get(name) or Scheme(name)
        self._spelling = ""
        self._respell: Callable[[str], str] | None = None
        self.brackets = False
        self._tags: dict[str, None] = {}
        self._opened: Counter[Scheme] = Counter()
        self._first: dict[Scheme, tuple[int, str]] = {}
        """The line and the text of the first tag that only this scheme allows."""

    def find_scheme(self, tags: Iterable[str]) -> bool:
        """Finds the spelling and the scheme by these tags and those before; returns whether they suffice."""
        self._tags |= dict.fromkeys(tags)
        tagged = [tag for tag in self._tags if tag not in ("O", "-")]
        self.brackets = any(tag[:1] in ("(", "*") for tag in tagged)
        if self.brackets or not tagged:
            return self.brackets
        self._spelling, self._respell = _spelling(tagged, self.name, has_outside="O" in self._tags)
        if self.name == "auto":
            prefixes = (split_tag(self._respell(tag) if self._respell else tag).prefix for tag in tagged)
            self._scheme = next(filter(None, map(_OWN_PREFIXES.get, prefixes)), None)
        return self._respell is not None or any(map(_is_tag, tagged))

    @property
    def scheme(self) -> Scheme:
        """The scheme, as far as the tags show it that were read."""
        opened = self._opened
        more = Scheme.IOB1 if opened[Scheme.IOB1] > opened[Scheme.IOB2] else Scheme.IOB2
        return self._scheme or more

    def __str__(self) -> str:
        return self._spelling or self.scheme.value

    @property
    def has_read(self) -> bool:
        """Whether there were tags."""
        return bool(self._tags)

    @property
    def misfits(self) -> tuple[int, int, str] | None:
        """The number of entities that open as `scheme` does not allow, and the line and tag of the first."""
        other = Scheme.IOB2 if self.scheme is Scheme.IOB1 else Scheme.IOB1
        return (self._opened[other], *self._first[other]) if self._opened[other] else None

    def spans(self, tags: Sequence[str], lines: Sequence[int]) -> list[Span]:
        """Returns the entities of a sentence, whose tags are in these lines, or raises a `TagError`."""
        if self.brackets:
            return from_brackets(tags)
        if self._respell is not None:
            tags = [self._respell(tag) for tag in tags]
        if self._scheme in (None, Scheme.IOB1, Scheme.IOB2) and not (self.strict and self._scheme):
            return self._iob_spans(tags, lines)
        is_bmes = self._scheme is Scheme.BIOES and self.name in ("auto", "BMES")
        if is_bmes and any(tag.startswith("M-") for tag in tags):
            self._spelling = "BMES"
            tags = [f"I{tag[1:]}" if tag.startswith("M-") else tag for tag in tags]
        for position, tag in enumerate(tags):
            self._check_own_prefix(split_tag(tag), position, lines)
        return to_spans(tags, self.scheme)

    def _iob_spans(self, tags: Sequence[str], lines: Sequence[int]) -> list[Span]:
        spans: list[Span] = []
        previous = _OUTSIDE
        for position, text in enumerate(tags):
            if text == "O":
                previous = _OUTSIDE
                continue
            tag = split_tag(text)
            if tag.prefix not in ("B", "I") or not tag.label:
                self._check_own_prefix(tag, position, lines)
                _parse_tag(text, Scheme.IOB2.prefixes, position)
            if tag.prefix == "I" and tag.label == previous.label:
                spans[-1] = spans[-1]._replace(end=position + 1)
            else:
                spans.append(Span(position, position + 1, tag.label))
            if tag.label != previous.label:
                self._count(Scheme.IOB1 if tag.prefix == "I" else Scheme.IOB2, tag, position, lines)
            previous = tag
        return spans

    def _check_own_prefix(self, tag: Tag, position: int, lines: Sequence[int]) -> None:
        if tag.label and self.name == "auto" and (scheme := _OWN_PREFIXES.get(tag.prefix)) is not None:
            self._count(scheme, tag, position, lines)

    def _count(self, scheme: Scheme, tag: Tag, position: int, lines: Sequence[int]) -> None:
        """Counts a tag that only one scheme allows; it may not be the first after some of another scheme."""
        if scheme in self._first:
            self._opened[scheme] += 1
            return
        may_mix = self.name != "auto" or (scheme in (Scheme.IOB1, Scheme.IOB2) and not self.strict)
        if self._first and not may_mix:
            ((other, (line, text)),) = list(self._first.items())[:1]
            raise MixedSchemeError(
                position, f"{tag} is {scheme.value}, but {text} in line {line} is {other.value}"
            )
        self._first[scheme] = (lines[position], str(tag))
        self._opened[scheme] = 1


def _spelling(
    tags: Sequence[str], name: str, *, has_outside: bool
) -> tuple[str, Callable[[str], str] | None]:
    """
    Returns the spelling of the different tags of a file other than `O`: its name, if it is a scheme, and the
    function that makes the tag of this module, if one spelling explains all of them.
    """
    if all(tag in _ALL_PREFIXES for tag in tags):
        return "", _with_type
    if name != "IO" and all(map(_OTHER_ORDER.fullmatch, tags)):
        return "", _prefix_first
    if name == "IO" or (name == "auto" and has_outside and not any(map(_is_tag, tags))):
        return "IO", _with_prefix
    return "", None


def _with_type(tag: str) -> str:
    """`B` is `B-ENTITY`."""
    return f"{'I' if tag == 'M' else tag}-{UNNAMED}" if tag in _ALL_PREFIXES else tag


def _prefix_first(tag: str) -> str:
    """`B_PER` and `PER-B` are `B-PER`."""
    match = _OTHER_ORDER.fullmatch(tag)
    if match is None:
        return tag
    prefix, label = match[1] or match[4], match[2] or match[3]
    return f"{'I' if prefix == 'M' else prefix}-{label}"


def _with_prefix(tag: str) -> str:
    """`PER` is `I-PER` of IOB1."""
    return f"I-{tag}" if tag != "O" and _TYPE.fullmatch(tag) else tag


def _is_tag(text: str) -> bool:
    tag = split_tag(text)
    return tag.prefix in _ALL_PREFIXES and tag.label != ""


def from_brackets(cells: Sequence[str]) -> list[Span]:
    """Returns the spans of one sentence with brackets, `(PER*`, `*`, `*)` or `(PER)`; `-` and `O` are `*`."""
    spans, label, start = [], "", 0
    for position, cell in enumerate(cells):
        match = _BRACKETS.fullmatch("*" if cell in ("-", "O") else cell)
        if match is None or not cell or (match[1] and label) or (match[2] and not (match[1] or label)):
            needed = f"* or the end of {label}, *)" if label else "*, (LABEL* or (LABEL)"
            raise TagError(position, f"the tag {cell!r} does not fit here, which needs {needed}")
        if match[1]:
            label, start = match[1], position
        if match[2]:
            spans.append(Span(start, position + 1, label))
            label = ""
    if label:
        raise TagError(len(cells) - 1, f"the sentence ends before the end of {label}, *)")
    return spans


def to_spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Returns the spans of one sentence; a tag that its scheme does not allow there is a `TagError`."""
    spans: list[Span] = []
    prefixes, previous = scheme.prefixes, _OUTSIDE
    for position, text in enumerate(tags):
        tag = _parse_tag(text, prefixes, position)
        if not _may_follow(previous, tag, scheme):
            where = f"after {previous}" if position else "at the start of the sentence"
            raise TagError(position, f"{scheme.value} does not allow {tag} {where}")
        if tag.label and (tag.prefix in _OPENING or tag.label != previous.label):
            spans.append(Span(position, position + 1, tag.label))
        elif tag.label:
            spans[-1] = spans[-1]._replace(end=position + 1)
        previous = tag
    if not _may_follow(previous, _OUTSIDE, scheme):
        raise TagError(len(tags) - 1, f"{scheme.value} does not allow {previous} at the end of the sentence")
    return spans


def from_spans(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Returns the tags of a sentence. A span that is empty, outside or overlaps is a `ValueError`."""
    begin, inside = "B", "I"
    last, unit = scheme.prefixes[2:] or (inside, begin)
    tags = ["O"] * length
    previous = Span(0, 0, "")
    for span in sorted(spans):
        if not previous.end <= span.start < span.end <= length or not span.label:
            needed = f"a label and some of the tokens 0 to {length - 1}, and overlaps no other"
            raise ValueError(f"{span} is not possible: a span has {needed}")
        if scheme is Scheme.IOB1:
            touches = span.start == previous.end and span.label == previous.label
            begin = unit = "B" if touches else "I"
        middle = inside * (span.end - span.start - 2)
        prefixes = unit if span.end - span.start == 1 else begin + middle + last
        tags[span.start : span.end] = [f"{prefix}-{span.label}" for prefix in prefixes]
        previous = span
    return tags


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


def _parse_tag(text: str, prefixes: tuple[str, ...], position: int) -> Tag:
    tag = split_tag(text)
    if text == "O" or (tag.label and tag.prefix in prefixes):
        return tag
    if _SEVERAL.fullmatch(text):
        raise TagError(position, f"{text!r} is several tags, and a word has one")
    kinds = ", ".join(f"{prefix}-LABEL" for prefix in prefixes)
    raise TagError(position, f"{text!r} is not one of the tags O, {kinds}")
