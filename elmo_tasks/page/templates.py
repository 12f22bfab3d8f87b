"""HTML from Jinja's templates, with marks in texts by spaCy's displaCy in the style of the page."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from allennlp.common import JsonDict
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
COLOURS = 8
"""The number of classes `colour-0` and so on in the style sheet; each also has a line of its own kind."""
_COLOUR_ORDER = ("ARG0", "ARG1", "PER", "LOC", "ORG", "MISC", "ARG2", "V")
_ENTITY = '<mark class="entity {bg}">{text}<span class="label">{label}{number}</span></mark>'
_STARRED = re.compile(r"(?:(?<=\s)|^)\*\*(\S+)\*\*(?=\s|$)")
# displaCy's own style is in attributes, which the page's security policy forbids, and is left to right.
_OWN_STYLE = ' style="line-height: 2.5; direction: ltr"'

Mark = dict[str, Any]
Place = tuple[int, int, str]


def page_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """
    Returns a template whose values are escaped and must all be given. It may include the templates of this
    folder, and the style sheet.

    # Parameters

    filters : the template's own filters, by name.
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
    """Returns one of the page's own templates."""
    return page_template(
        HERE / "templates" / name, named=named, answered=answered, arguments=arguments, mentions=mentions
    )


def named(entities: list[JsonDict]) -> Iterator[Mark]:
    """Yields the marks of entities, with their probabilities."""
    for entity in entities:
        yield _mark(entity, entity["type"])


def answered(result: JsonDict) -> Iterator[Mark]:
    """Yields the mark of the answer in the passage, if there is one."""
    if result["char_start"] is not None:
        yield _mark(result, "answer")


def _mark(place: JsonDict, label: str) -> Mark:
    number = f"{place['probability']:.2f}"
    return {"label": label, "number": number, "start": place["char_start"], "end": place["char_end"]}


def arguments(frame: list[JsonDict]) -> Iterator[Place]:
    """Yields all parts of a predicate's arguments, including the predicate itself."""
    for argument in frame:
        for start, end in argument["spans"]:
            yield start, end, argument["label"]


def mentions(clusters: list[list[list[int]]]) -> Iterator[Place]:
    """Yields the mentions of all clusters, labelled with the numbers of the clusters."""
    for number, cluster in enumerate(clusters):
        for first, last in cluster:
            yield first, last + 1, str(number)


def entities(text: str, spans: Iterable[Mark]) -> Markup:
    """
    Returns a text with its entities.

    # Parameters

    spans : the entities in order, not nested: `start` and `end` (half-open, in characters), `label`, and an
        optional `number` to show.
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


def spans(tokens: Sequence[str], places: Iterable[Place]) -> Markup:
    """Returns tokens with labelled spans below them, given by half-open places; spans may overlap."""
    marked = [
        {"start_token": start, "end_token": end, "label": escape(label)} for start, end, label in places
    ]
    options = {
        "colors": _classes(marked),
        # With these offsets displaCy counts rows, not pixels.
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
    """Returns a text with a mark in place of the `**` around a word."""
    plain, marks, end = "", [], 0
    for match in _STARRED.finditer(text):
        plain += text[end : match.start()]
        marks.append({"start": len(plain), "end": len(plain) + len(match[1]), "label": ""})
        plain, end = plain + match[1], match.end()
    return entities(plain + text[end:], marks) if marks else escape(text)


def heat(share: float, largest: float = 1.0) -> str:
    """Returns the CSS class of a share of the largest one."""
    return f"heat-{round(10 * min(1.0, max(0.0, share / largest if largest else 0.0)))}"


def _rendered(document: dict[str, Any], style: str, options: dict[str, Any]) -> Markup:
    from spacy import displacy  # takes a third of a second

    html = displacy.render(document, style=style, manual=True, jupyter=False, options=options)
    return Markup(html.replace(_OWN_STYLE, ' dir="auto"', 1).strip())


def _classes(marked: Iterable[Mark]) -> dict[str, str]:
    """Returns the CSS class of each label, where displaCy expects its colour."""
    return {span["label"]: f"colour-{_colour(span['label'])}" for span in marked}


def _colour(label: str) -> int:
    if label.isdecimal():
        return int(label) % COLOURS
    return _COLOUR_ORDER.index(label) if label in _COLOUR_ORDER else crc32(label.encode()) % COLOURS
