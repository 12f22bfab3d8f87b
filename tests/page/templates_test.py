import re

import pytest
from jinja2 import UndefinedError

from elmo_tasks.page.templates import Mark, arguments, marked, meaning, mentions, template


def test_values_are_escaped_and_must_be_given():
    explained = [{"result": "<b>&", "explanations": []}]
    assert "&lt;b&gt;&amp;" in template("explain.html").render(explained=explained, json=str)
    with pytest.raises(UndefinedError, match="explained"):
        template("explain.html").render()


def test_marks_of_characters():
    parts = [{"label": "ARG1", "char_spans": [[0, 2], [7, 10]]}, {"label": "V", "char_spans": [[2, 5]]}]
    assert list(arguments(parts)) == [Mark(0, 2, "ARG1"), Mark(7, 10, "ARG1"), Mark(2, 5, "V")]
    place = {"char_start": 3, "char_end": 5}
    assert list(mentions([[place], [place]])) == [Mark(3, 5, "0"), Mark(3, 5, "1")]


@pytest.mark.parametrize(
    ("text", "marks", "expected"),
    [
        ("a <b>\nŁódź.", [Mark(6, 10, "<LOC>", "71%")], "a &lt;b&gt;\n[Łódź|&lt;LOC&gt; 71%]."),
        ("her keys", [Mark(0, 3, "0"), Mark(0, 8, "1")], "[[her|0 ] keys|1 ]"),
        ("a b c", [Mark(0, 3, "0"), Mark(2, 5, "1")], "[a [b|1 ]|0 ][ c|1 ]"),
        ("a b", [], "a b"),
    ],
)
def test_marks_in_a_text(text, marks, expected):
    html = marked(text, marks)
    for tag, sign in {r"<mark [^>]*><span>": "[", "</span><small>": "|", "</small></mark>": "]"}.items():
        html = re.sub(tag, sign, html)
    assert html == f'<p class="marked" dir="auto">{expected}</p>'


def test_a_mark_has_its_colour_and_its_meaning():
    assert '<mark class="colour-2" title="person">' in marked("Ana", [Mark(0, 3, "PER")])
    assert '<mark class="colour-7"' in marked("Ana", [Mark(0, 3, "9" * 4998 + "11")])
    assert [meaning(label) for label in ("R-ARG0", "ARGM-TMP", "GPE", "animal")] == [
        "a reference to who or what acts",
        "when",
        "Countries, cities, states",
        "animal",
    ]
