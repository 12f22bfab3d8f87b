"""
What is marked of each task's answer: filters of its template, for `entities` and `spans`.

What is marked in a text, as HTML by displaCy; our classes of CSS stand for its colours.

HTML from Jinja's templates, which all have the same looks.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from allennlp.common import JsonDict
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

# ==== page.marks
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


# ==== page.markup
COLOURS = 8
"""Classes `colour-0` and so on of the style sheet, each with a line of its own kind."""
_KNOWN = ("ARG0", "ARG1", "PER", "LOC", "ORG", "MISC", "ARG2", "V")
_ENTITY = '<mark class="entity {bg}">{text}<span class="label">{label}{number}</span></mark>'
_STARRED = re.compile(r"(?:(?<=\s)|^)\*\*(\S+)\*\*(?=\s|$)")
# displaCy's own looks stand in attributes, which the page's security policy forbids, and run from the left.
_OWN_STYLE = ' style="line-height: 2.5; direction: ltr"'


def entities(text: str, spans: Iterable[dict[str, Any]]) -> Markup:
    """
    A text with its entities.

    # Parameters

    spans : in their order, none in another: `start` and `end` (half-open, of characters), `label`, and
        `number`, what else is said of it.
    """
    marked = [
        {
            "start": span["start"],
            "end": span["end"],
            "label": escape(span["label"]),
            "params": {"number": escape(f" {span['number']}" if span.get("number") else "")},
        }
        for span in spans
    ]
    options = {"colors": _classes(marked), "template": _ENTITY}
    return _rendered({"text": text, "ents": marked}, "ent", options)


def spans(tokens: Sequence[str], places: Iterable[tuple[int, int, str]]) -> Markup:
    """Spans below their tokens, within and across each other: of each its place (half-open) and its label."""
    marked = [
        {"start_token": start, "end_token": end, "label": escape(label)} for start, end, label in places
    ]
    options = {
        "colors": _classes(marked),
        # So that displaCy counts rows, not pixels
        "top_offset": 1,
        "top_offset_step": 1,
        "span_label_offset": 0,
        "template": {
            "span": '<span class="token">{text}{span_slices}{span_starts}</span> ',
            "slice": '<span class="slice {bg} row-{top_offset}"></span>',
            "start": '<span class="slice start {bg} row-{top_offset}"><b class="label">{label}</b></span>',
        },
    }
    document = {"text": " ".join(tokens), "tokens": list(tokens), "spans": marked}
    return _rendered(document, "span", options)


def starred(text: str) -> Markup:
    """A text in which `**` stands around a word, which is marked."""
    plain, marks, behind = "", [], 0
    for match in _STARRED.finditer(text):
        plain += text[behind : match.start()]
        marks.append({"start": len(plain), "end": len(plain) + len(match[1]), "label": ""})
        plain, behind = plain + match[1], match.end()
    return entities(plain + text[behind:], marks) if marks else escape(text)


def heat(share: float, largest: float = 1.0) -> str:
    """The class of CSS for a part of the largest one."""
    return f"heat-{round(10 * min(1.0, max(0.0, share / largest if largest else 0.0)))}"


def _rendered(document: dict[str, Any], style: str, options: dict[str, Any]) -> Markup:
    from spacy import displacy  # takes a third of a second

    html = displacy.render(document, style=style, manual=True, jupyter=False, options=options)
    return Markup(html.replace(_OWN_STYLE, ' dir="auto"', 1).strip())


def _classes(marked: Iterable[dict[str, Any]]) -> dict[str, str]:
    return {span["label"]: f"colour-{_colour(span['label'])}" for span in marked}


def _colour(label: str) -> int:
    if label.isdecimal():
        return int(label) % COLOURS
    return _KNOWN.index(label) if label in _KNOWN else crc32(label.encode()) % COLOURS


# ==== page.templates
HERE = Path(__file__).parent
ASSETS = HERE / "assets"


def page_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """
    A template whose values are escaped, and must all be given; it may include those of this folder, and its
    style sheet.

    # Parameters

    filters : what it calls so, beside those of `markup`.
    """
    environment = Environment(
        loader=FileSystemLoader([path.parent, HERE / "templates", ASSETS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"starred": starred, **filters}
    environment.globals |= {"entities": entities, "spans": spans, "heat": heat}
    return environment.get_template(path.name)


@cache
def template(name: str) -> Template:
    """One of the page's own."""
    return page_template(HERE / "templates" / name, **FILTERS)
