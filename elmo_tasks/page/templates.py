"""HTML from Jinja's templates, with marks in texts, and the meanings of labels in words."""

import re
from bisect import insort
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from allennlp.common import JsonDict
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from elmo_tasks import __version__

_PREFIXES = {"R": "a reference to", "C": "continues"}
"""The prefixes of PropBank's roles, as in `R-ARG0` and `C-ARG1`."""
_MEANINGS = {
    "PER": "person",
    "LOC": "place",
    "ORG": "organization",
    "MISC": "other name",
    "answer": "the answer",
    "V": "the predicate",
    "ARG0": "who or what acts",
    "ARG1": "who or what it happens to",
    "ARG2": "receiver, means or result",
    "ARG3": "start, receiver or quality",
    "ARG4": "end point",
    "ARG5": "direction",
    "ARGA": "who causes the act",
    "ARGM-ADJ": "adjective",
    "ARGM-ADV": "adverb or condition",
    "ARGM-CAU": "cause",
    "ARGM-COM": "with whom",
    "ARGM-CXN": "comparison",
    "ARGM-DIR": "direction",
    "ARGM-DIS": "link to the text before",
    "ARGM-DSP": "direct speech",
    "ARGM-EXT": "how much",
    "ARGM-GOL": "goal",
    "ARGM-LOC": "where",
    "ARGM-LVB": "light verb",
    "ARGM-MNR": "how",
    "ARGM-MOD": "modal verb",
    "ARGM-NEG": "negation",
    "ARGM-PNC": "purpose",
    "ARGM-PRD": "quality of an argument",
    "ARGM-PRP": "purpose",
    "ARGM-PRR": "noun of a light verb",
    "ARGM-REC": "each other",
    "ARGM-TMP": "when",
}


def meaning(label: str) -> str:
    """Returns the meaning of the label of an entity or a role; the label itself if it is not known."""
    if label.isdecimal():
        return f"mention of cluster {label}"
    prefix, _, role = label.partition("-")
    if prefix in _PREFIXES:
        return f"{_PREFIXES[prefix]} {meaning(role)}"
    if label not in _MEANINGS:
        from spacy.glossary import GLOSSARY  # takes a third of a second

        return GLOSSARY.get(label, label)
    return _MEANINGS[label]


HERE = Path(__file__).parent
ASSETS = HERE / "assets"
COLOURS = 8
"""The number of classes `colour-0` and so on in the style sheet; each also has a line of its own kind."""
_MAX_DIGITS = 9
"""The digits of a number that its colour depends on; Python reads no more than 4,300."""
_COLOUR_ORDER = ("ARG0", "ARG1", "PER", "LOC", "ORG", "MISC", "ARG2", "V")
_STARRED = re.compile(r"(?:(?<=\s)|^)\*\*(\S+)\*\*(?=\s|$)")


class Mark(NamedTuple):
    """A marked part of a text, in characters `[start, end)`; marks may be nested."""

    start: int
    end: int
    label: str
    number: str = ""
    """Shown after the label."""


@cache
def template(name: str) -> Template:
    """
    Returns a template of this folder, whose values are escaped and must all be given. It may include others,
    and the style sheet.
    """
    environment = Environment(
        loader=FileSystemLoader([HERE / "templates", ASSETS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (starred, percent, named, answered, arguments, mentions)
    environment.filters |= {each.__name__: each for each in filters}
    environment.globals |= {"marked": marked, "heat": heat, "meaning": meaning, "percent": percent}
    environment.globals["version"] = __version__
    return environment.get_template(name)


def percent(share: float) -> str:
    """Returns a share in percent, such as `83%`."""
    return f"{100 * share:.0f}%"


def named(entities: list[JsonDict]) -> Iterator[Mark]:
    """Yields the marks of entities, with their probabilities."""
    for entity in entities:
        yield _mark(entity, entity["type"])


def answered(result: JsonDict) -> Iterator[Mark]:
    """Yields the mark of the answer in the passage, if there is one."""
    if result["char_start"] is not None:
        yield _mark(result, "answer")


def _mark(span: JsonDict, label: str) -> Mark:
    return Mark(span["char_start"], span["char_end"], label, percent(span["probability"]))


def arguments(predicate_arguments: list[JsonDict]) -> Iterator[Mark]:
    """Yields all parts of a predicate's arguments, including the predicate itself."""
    for argument in predicate_arguments:
        for start, end in argument["char_spans"]:
            yield Mark(start, end, argument["label"])


def mentions(clusters: list[list[JsonDict]]) -> Iterator[Mark]:
    """Yields the mentions of all clusters, labelled with the indices of the clusters."""
    for cluster_index, cluster in enumerate(clusters):
        for mention in cluster:
            yield Mark(mention["char_start"], mention["char_end"], str(cluster_index))


def marked(text: str, marks: Iterable[Mark]) -> Markup:
    """Returns a text with its marks. Where two marks cross, the second is cut in two."""
    html = _marked(text, 0, len(text), sorted(marks, key=_outer_first))
    return Markup('<p class="marked" dir="auto">{}</p>').format(html)


def _marked(text: str, start: int, end: int, waiting: list[Mark]) -> Markup:
    """Returns the characters `[start, end)`, and takes their marks from those that wait."""
    html = Markup()
    while waiting and waiting[0].start < end:
        mark = waiting.pop(0)
        if mark.end > end:
            insort(waiting, mark._replace(start=end), key=_outer_first)
        inner_end = min(mark.end, end)
        html += escape(text[start : mark.start])
        html += Markup(
            '<mark class="colour-{}" title="{}"><span>{}</span><small>{} {}</small></mark>'
        ).format(
            _colour(mark.label),
            meaning(mark.label),
            _marked(text, mark.start, inner_end, waiting),
            mark.label,
            mark.number,
        )
        start = inner_end
    return html + escape(text[start:end])


def _outer_first(mark: Mark) -> tuple[int, int]:
    return mark.start, -mark.end


def starred(text: str) -> Markup:
    """Returns a text with a mark in place of the `**` around a word; no line begins with punctuation."""
    text = re.sub(r" (?=[^\w\s*]+(?: |$))", "\u00a0", text)
    return Markup(_STARRED.sub(r'<mark class="word">\1</mark>', str(escape(text))))


def heat(share: float) -> str:
    """Returns the CSS class of a share: `heat-0` to `heat-10` for 0 to 1."""
    return f"heat-{round(10 * min(1.0, max(0.0, share)))}"


def _colour(label: str) -> int:
    if label.isdecimal():
        return int(label[-_MAX_DIGITS:]) % COLOURS
    return _COLOUR_ORDER.index(label) if label in _COLOUR_ORDER else crc32(label.encode()) % COLOURS
