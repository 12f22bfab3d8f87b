"""The trained models that come with the project give the answers that are stored, to 1e-4."""

import json
from pathlib import Path

import pytest

from elmo_tasks import load
from elmo_tasks.archives.opening import trained_archives, trained_card
from elmo_tasks.pipeline.results import Answer, Entity, Label, Predicate, SentenceVector

ANSWERS = Path(__file__).with_name("models_answers.json")
"""For each model ten examples, each a list of its texts and the result."""
MODELS = trained_archives()


def plain(result):
    """Returns a result without tuples, as JSON stores it; of a vector, the first numbers and the length."""
    if isinstance(result, SentenceVector):
        length = float((result.vector**2).sum() ** 0.5)
        result = [result.tokens, [*result.vector[:20].tolist(), length], result.scores[:20].tolist()]
    return json.loads(json.dumps(result))


def assert_near(found, expected):
    if isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4)
    elif isinstance(expected, list | dict):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        for key in expected if isinstance(expected, dict) else range(len(expected)):
            assert_near(found[key], expected[key])
    else:
        assert found == expected


@pytest.mark.parametrize("name", MODELS)
def test_answers(name):
    examples = json.loads(ANSWERS.read_text(encoding="utf-8"))[name]
    assert len(examples) == 10
    model = load(name)
    found = model.predict_batch(tuple(texts) for texts, _ in examples)
    for result, (texts, expected) in zip(found, examples, strict=True):
        assert_near(plain(result), expected)
        assert_near(plain(model(*texts)), expected)


def simple(result):
    """Returns a result without numbers, as in the examples of the cards."""
    if isinstance(result, Label):
        return result.label
    if isinstance(result, Answer):
        return result.text
    if result and isinstance(result[0], Predicate):
        return {each.text: {part.label: part.text for part in each.arguments} for each in result}
    if result and isinstance(result[0], Entity):
        return [[each.text, each.type] for each in result]
    return [[mention.text for mention in cluster] for cluster in result]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_examples_of_the_page_are_right(name):
    examples = [dict(example) for example in trained_card(name).get("examples", [])]
    answers = [example.pop("answer") for example in examples]
    assert [simple(each) for each in load(name).predict_batch(tuple(e.values()) for e in examples)] == answers


@pytest.mark.parametrize("name", MODELS)
def test_cards(name, allennlp):
    path = MODELS[name]
    assert path.stat().st_size < 4_000_000
    assert set(trained_card(name)) - {"examples"} == {"task", "data", "licence", "score", "unseen", "limits"}
    shown = allennlp("elmo", "models").splitlines()
    assert f"elmo:{name}" in shown
    assert max(map(len, shown)) <= 80
