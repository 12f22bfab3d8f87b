import re

import pytest
from jinja2 import UndefinedError

from elmo_tasks.page.templates import (
    answered,
    arguments,
    entities,
    heat,
    mentions,
    named,
    page_template,
    spans,
    starred,
)

PLACE = {"char_start": 3, "char_end": 5, "probability": 0.256}


def test_values_are_escaped_filtered_and_must_be_given(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<p>{{ text }}{{ 'a' | loud }}</p>")
    template = page_template(path, loud=str.upper)
    assert template.render(text="<b>&") == "<p>&lt;b&gt;&amp;A</p>"
    with pytest.raises(UndefinedError, match="text"):
        template.render()


def test_marks_of_characters():
    mark = {"start": 3, "end": 5, "number": "0.26"}
    assert list(named([{"type": "PER", **PLACE}])) == [{"label": "PER", **mark}]
    assert list(answered(PLACE)) == [{"label": "answer", **mark}]
    assert list(answered({"char_start": None})) == []


def test_spans_end_after_their_last_token():
    frame = [{"label": "ARG1", "spans": [[0, 1], [3, 5]]}, {"label": "V", "spans": [[2, 3]]}]
    assert list(arguments(frame)) == [(0, 1, "ARG1"), (3, 5, "ARG1"), (2, 3, "V")]
    assert list(mentions([[[0, 0]], [[1, 2], [4, 4]]])) == [(0, 1, "0"), (1, 3, "1"), (4, 5, "1")]


def words(html):
    """Returns the text between the tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def test_entities():
    html = entities(
        "Ana <b> flew\nto Łódź.",
        [
            {"start": 0, "end": 3, "label": "PER", "number": "0.71"},
            {"start": 16, "end": 20, "label": "<LOC>"},
        ],
    )
    assert '<mark class="entity colour-2">Ana<span class="label">PER 0.71</span></mark>' in html
    assert '>Łódź<span class="label">&lt;LOC&gt;</span>' in html
    assert "&lt;b&gt; flew<br>to" in html
    assert 'dir="auto"' in html
    assert "style=" not in html


def test_nested_spans_have_rows():
    html = spans(["her", "keys", "&", "them"], [(0, 2, "1"), (0, 1, "0"), (3, 4, "1")])
    assert words(html) == "her 1 0 keys &amp; them 1"
    assert html.count("start colour-1 row-1") == 2
    assert html.count("start colour-0 row-2") == 1
    assert 'dir="auto"' in html
    assert "style=" not in html


def test_stars_around_a_word_become_a_mark():
    assert words(starred("… They **play** <chess> ** .")) == "… They play &lt;chess&gt; ** ."
    assert starred("… They **play** .").count("<mark") == 1
    assert starred("2 ** 3 <b>") == "2 ** 3 &lt;b&gt;"


def test_heat_is_relative_to_the_largest_share():
    steps = [heat(share, 0.5) for share in (0, 0.24, 0.5, 1.0, -1.0)]
    assert steps == ["heat-0", "heat-5", "heat-10", "heat-10", "heat-0"]
    assert heat(0.0, 0.0) == "heat-0"
