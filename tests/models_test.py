"""The trained models that come with the project give the answers that are stored, to 1e-4."""

import json
from pathlib import Path

import pytest

from elmo_tasks import load
from elmo_tasks.commands.models import CARDS
from elmo_tasks.compat.slim_archives import trained_archives

ANSWERS = Path(__file__).with_name("models_answers.json")
"""For each model ten examples, each a list of its texts and the result."""
MODELS = trained_archives()


def plain(result):
    """Returns a result as JSON has it."""
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


@pytest.mark.parametrize("name", MODELS)
def test_cards(name, allennlp):
    path = MODELS[name]
    assert path.stat().st_size < 4_000_000
    assert set(json.loads(path.with_name(CARDS).read_text(encoding="utf-8"))[name]) == {
        "task",
        "data",
        "score",
    }
    assert f"elmo:{name}" in allennlp("elmo", "models")
