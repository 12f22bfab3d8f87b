import re

from elmo_tasks.page.templates import entities, heat, spans, starred


def words(html):
    """The text between the tags."""
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


def test_spans_within_each_other_have_rows():
    html = spans(["her", "keys", "&", "them"], [(0, 2, "1"), (0, 1, "0"), (3, 4, "1")])
    assert words(html) == "her 1 0 keys &amp; them 1"
    assert html.count("start colour-1 row-1") == 2
    assert html.count("start colour-0 row-2") == 1
    assert 'dir="auto"' in html
    assert "style=" not in html


def test_stars_around_a_word_are_a_mark():
    assert words(starred("… They **play** <chess> ** .")) == "… They play &lt;chess&gt; ** ."
    assert starred("… They **play** .").count("<mark") == 1
    assert starred("2 ** 3 <b>") == "2 ** 3 &lt;b&gt;"


def test_heat_is_a_part_of_the_largest():
    assert [heat(share, 0.5) for share in (0, 0.24, 0.5, 1.0, -1.0)] == [
        f"heat-{step}" for step in (0, 5, 10, 10, 0)
    ]
    assert heat(0.0, 0.0) == "heat-0"
