import re

import pytest
from jinja2 import UndefinedError

from elmo_tasks.page.templates import (
    Mark,
    arguments,
    located,
    marked,
    meaning,
    mentions,
    page_template,
)


def test_values_are_escaped_filtered_and_must_be_given(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<p>{{ text }}{{ 'a' | loud }}</p>")
    template = page_template(path, loud=str.upper)
    assert template.render(text="<b>&") == "<p>&lt;b&gt;&amp;A</p>"
    with pytest.raises(UndefinedError, match="text"):
        template.render()


def test_tokens_are_found_in_their_text():
    text = located(["Do", "n't", "go", "."], "Don't  go.")
    assert text.offsets == [(0, 2), (2, 5), (7, 9), (9, 10)]
    assert located(["a", "-LRB-"], "a (") == located(["a", "-LRB-"], "a -LRB-")
    frame = [{"label": "ARG1", "spans": [[0, 1], [2, 4]]}, {"label": "V", "spans": [[1, 2]]}]
    assert list(arguments(frame, text)) == [Mark(0, 2, "ARG1"), Mark(7, 10, "ARG1"), Mark(2, 5, "V")]
    assert list(mentions([[[0, 0]], [[1, 2]]], text)) == [Mark(0, 2, "0"), Mark(2, 9, "1")]


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
    assert [meaning(label) for label in ("R-ARG0", "ARGM-TMP", "GPE", "animal")] == [
        "a reference to who or what acts",
        "when",
        "Countries, cities, states",
        "animal",
    ]
