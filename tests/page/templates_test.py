import csv
import re
from urllib.parse import unquote

import pytest
from jinja2 import UndefinedError

from elmo_tasks.page.templates import Mark, arguments, csv_address, marked, mentions, named, template

ANA = {"text": 'Ana "A" Łódź', "char_start": 0, "char_end": 13}


def test_values_are_escaped_and_must_be_given():
    explained = [{"result": "<b>&", "explanations": []}]
    assert "&lt;b&gt;&amp;" in template("explain.html").render(explained=explained, json=str)
    with pytest.raises(UndefinedError, match="explained"):
        template("explain.html").render()


def test_marks_of_characters():
    parts = [{"label": "ARG1", "char_spans": [[0, 2], [7, 10]]}, {"label": "V", "char_spans": [[2, 5]]}]
    shown = [(mark[:3], mark.colour) for mark in arguments(parts, {"ARG1": 5})]
    assert shown == [((0, 2, "ARG1"), 5), ((7, 10, "ARG1"), 5), ((2, 5, "V"), 0)]
    place = {"char_start": 3, "char_end": 5}
    clusters = [[place | {"text": "She"}, place | {"text": "Ana's"}], [place | {"text": "the key"}]]
    marks = [(*mark[:3], mark.name) for marks in mentions(clusters) for mark in marks]
    assert marks == [(3, 5, "1", "1: Ana"), (3, 5, "1", "1: Ana"), (3, 5, "2", "2: the key")]


@pytest.mark.parametrize(
    ("text", "marks", "expected"),
    [
        ("a <b>\nŁódź.", [Mark(6, 10, "<LOC>", "71%")], "a &lt;b&gt;\n[Łódź|&lt;LOC&gt; 71%]."),
        ("her keys", [Mark(0, 3, "0"), Mark(0, 8, "1")], "[[her|0] keys|1]"),
        ("a b c", [Mark(0, 3, "0"), Mark(2, 5, "1")], "[a [b|1]|0][ c|1]"),
        ("a b", [], "a b"),
    ],
)
def test_marks_in_a_text(text, marks, expected):
    html = marked(text, marks)
    for tag, sign in {r"<mark [^>]*><span>": "[", "</span><small>": "|", "</small></mark>": "]"}.items():
        html = re.sub(tag, sign, html)
    assert html == f'<p class="marked" dir="auto">{expected}</p>'


@pytest.mark.parametrize(
    ("result", "row"),
    [
        ({"entities": [ANA | {"type": "PER", "probability": 0.5}]}, [ANA["text"], "PER", "0", "13", "0.5"]),
        ({"mentions": [[ANA]]}, ["1", ANA["text"], ANA["text"], "0", "13"]),
    ],
)
def test_entities_and_mentions_as_csv(result, row):
    kind, _, content = unquote(csv_address(result)).partition(",")
    assert kind == "data:text/csv;charset=utf-8"
    assert list(csv.reader(content.splitlines()))[1:] == [row]
    assert csv_address({"entities": [], "label": "x"}) is None


def test_a_mark_has_its_colour_and_its_name():
    (mark,) = named([{"char_start": 0, "char_end": 3, "type": "PER", "probability": 0.5}], {"PER": 2})
    assert '<mark class="colour-2" title="person">' in marked("Ana", [mark])
