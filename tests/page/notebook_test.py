"""The HTML of values of `load`: the marks of the page, in a notebook that has a style of its own."""

import copy
import json
import pickle
import re

import pytest

from elmo_tasks import load
from elmo_tasks.page.notebook import MOST
from elmo_tasks.page.tabs import Tab
from elmo_tasks.page.templates import template

STORY = "Ana Silva sold <her> cello to Reuters & Sons. She needed money, since it was old."
INPUTS = {
    "ner": {"sentence": STORY},
    "srl": {"sentence": STORY},
    "coref": {"document": STORY},
    "squad": {"passage": STORY, "question": "What did she sell?"},
    "sentiment": {"sentence": STORY},
    "snli": {"premise": STORY, "hypothesis": "She <b>sold</b> it."},
}


def shown(html):
    """The parts of HTML that show a result: marks, explanations of labels, and rows of tables."""
    return re.findall(r"<mark.*?>|</mark>|<small>.*?</small>|<b .*?</span>|<tr.*?</tr>", html)


@pytest.mark.parametrize("name", INPUTS)
def test_a_value_is_shown_as_on_the_page(name):
    model = load(name)
    value = model(**INPUTS[name])
    html = value._repr_html_()
    tab = Tab.of(name, model.predictor)
    answer = {"content": INPUTS[name], "result": model.predictor.predict_json(INPUTS[name])}
    values = {"brief": name != "srl", "group": "", "result": answer["result"], "answer": answer}
    page = template(f"tasks/{tab.task}.html").render(tab=tab, **values)
    assert shown(html) == shown(page) != []
    assert "<her" not in html
    assert "&lt;" in html
    assert not re.search(r"<script|<link|src=|href=|url\(|@import", html)
    for same in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert (same, same._repr_html_()) == (value, html)


def test_a_value_is_the_list_or_tuple_that_it_was():
    entities, label = load("ner")(STORY), load("sentiment")(STORY)
    assert entities == list(entities)
    assert json.dumps(entities) == json.dumps(list(entities))
    assert json.dumps(label) == json.dumps(list(label))
    assert repr(entities) == repr(list(entities))
    assert label == tuple(label)
    assert repr(label).startswith("Label(label=")
    name, probabilities = label
    assert probabilities[name] == max(probabilities.values())


def test_a_list_shows_each_value_in_its_own_text():
    ner = load("ner")
    texts = ["Bo met Ana Silva.", {"tokens": ["It", "rains", "in", "Oslo", "."]}, "So?"]
    values = ner.predict_batch(texts)
    assert [[entity.text for entity in value] for value in values] == [["Bo", "Ana Silva"], ["Oslo"], []]
    html = values._repr_html_()
    assert html.count("<style>") == 1
    assert [part in html for part in ("It rains in <mark", "So?", "No entity")] == [True] * 3
    assert [value._repr_html_() for value in ner.stream(texts)] == [value._repr_html_() for value in values]
    many = ner.predict_batch(["So?"] * (MOST + 3))._repr_html_()
    assert many.count("So?") == MOST
    assert "3 more" in many
    assert ner.predict_batch([])._repr_html_() is None
    assert load("sentence").predict_batch(["So?"])._repr_html_() is None
    assert load("squad").predict_batch([("Bo ran.", " ")])._repr_html_().count("No answer") == 1
