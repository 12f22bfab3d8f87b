"""HTML from Jinja's templates, with marks in texts."""

import csv
import re
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from allennlp.common import JsonDict
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from elmo_tasks import __version__
from elmo_tasks.common.colours import COLOURS
from elmo_tasks.coref.documents import name_of
from elmo_tasks.pipeline.results import label_names
from elmo_tasks.srl.role_names import role_names

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
_STARRED = re.compile(r"(?:(?<=\s)|^)\*\*(\S+)\*\*(?=\s|$)")


class Mark(NamedTuple):
    """A marked part of a text, in characters `[start, end)`; marks may be nested."""

    start: int
    end: int
    label: str
    number: str = ""
    """Shown after the label."""
    name: str = ""
    """The label in words, if it has a name."""
    colour: int = 0
    id: str = ""


@cache
def template(name: str) -> Template:
    """Returns a template, whose values are escaped and must all be given."""
    environment = Environment(
        loader=FileSystemLoader([HERE / "templates", ASSETS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (starred, percent, named, answered, arguments, mentions)
    environment.filters |= {function.__name__: function for function in filters}
    functions = (marked, heat, label_names, percent, csv_address)
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals["version"] = __version__
    return environment.get_template(name)


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def named(entities: list[JsonDict], colours: Mapping[str, int]) -> Iterator[Mark]:
    for entity in entities:
        label = entity["type"]
        yield _mark(entity, label, label_names([label]).get(label, ""), colours.get(label, 0))


def answered(result: JsonDict) -> Iterator[Mark]:
    if result["char_start"] is not None:
        yield _mark(result, "answer", "the answer")


def _mark(span: JsonDict, label: str, name: str, colour: int = 0) -> Mark:
    return Mark(span["char_start"], span["char_end"], label, percent(span["probability"]), name, colour)


def arguments(predicate_arguments: list[JsonDict], colours: Mapping[str, int]) -> Iterator[Mark]:
    for argument in predicate_arguments:
        label = argument["label"]
        name = role_names([label]).get(label, "")
        for start, end in argument["char_spans"]:
            yield Mark(start, end, label, name=name, colour=colours.get(label, 0))


def mentions(clusters: list[list[JsonDict]]) -> list[list[Mark]]:
    """Returns the marks of each cluster; their name is its number and its name."""
    marks = []
    for number, cluster in enumerate(clusters, start=1):
        name = f"{number}: {_cluster_name(cluster)}"
        spans = [(mention["char_start"], mention["char_end"]) for mention in cluster]
        marks.append(
            [
                Mark(*span, str(number), name=name, colour=number % COLOURS, id="mention-{}-{}".format(*span))
                for span in spans
            ]
        )
    return marks


def _cluster_name(cluster: list[JsonDict]) -> str:
    return name_of([mention["text"] for mention in cluster])


def csv_address(result: JsonDict) -> str | None:
    """Returns a URL that holds the entities or mentions of a result as a csv file; `None` without any."""
    rows = [{"entity": entity["text"], **entity} for entity in result.get("entities", ())]
    columns = ["entity", "type", "char_start", "char_end", "probability"]
    if "mentions" in result:
        columns = ["cluster", "name", "mention", "char_start", "char_end"]
        rows = [
            {"cluster": number, "name": _cluster_name(cluster), "mention": mention["text"], **mention}
            for number, cluster in enumerate(result["mentions"], start=1)
            for mention in cluster
        ]
    file = StringIO()
    writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return f"data:text/csv;charset=utf-8,{quote(file.getvalue())}" if rows else None


def marked(text: str, marks: Iterable[Mark], span: tuple[int, int] | None = None) -> Markup:
    """Returns a text, or a span of it, with its marks. Where two marks cross, the second is cut in two."""
    html = _marked(text, *(span or (0, len(text))), sorted(marks, key=_outer_first))
    return Markup('<p class="marked" dir="auto">{}</p>').format(html)


def _marked(text: str, start: int, end: int, waiting: list[Mark]) -> Markup:
    """Returns the characters `[start, end)`, and takes their marks from those that wait."""
    html = Markup()
    while waiting and waiting[0].start < end:
        mark = waiting.pop(0)
        if mark.end > end:
            insort(waiting, mark._replace(start=end, id=""), key=_outer_first)
        inner_end = min(mark.end, end)
        html += escape(text[start : mark.start])
        html += Markup('<mark class="colour-{}" title="{}"{}><span>{}</span><small>{}</small></mark>').format(
            mark.colour,
            mark.name,
            Markup(' id="{}"').format(mark.id) if mark.id else "",
            _marked(text, mark.start, inner_end, waiting),
            f"{mark.label} {mark.number}".strip(),
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
    return f"heat-{round(10 * min(1.0, max(0.0, share)))}"
