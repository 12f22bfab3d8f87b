"""`load`: what a trained model takes, what it refuses, and the offsets of its results in the text."""

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks import load
from elmo_tasks.archives import open_archive
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.pipeline.results import Mention
from elmo_tasks.pipeline.trained import TrainedModel
from tests.errors import mentions

PASSAGE = "The bridge was opened in 2018. It is three kilometres long."
QUESTION = "When was the bridge opened?"
STORY = "My sister didn't (really) like the \"new\" dog.  The dog's  name is Rex. She feeds it."


@pytest.fixture(scope="module")
def model():
    """Opens each model once."""
    opened: dict[str, TrainedModel] = {}
    return lambda name: opened.get(name) or opened.setdefault(name, load(name))


def test_texts_and_fields(model):
    squad = model("squad")
    expected = squad(PASSAGE, QUESTION)
    assert expected.text == "2018"
    fields = {"passage": PASSAGE, "question": QUESTION}
    assert squad(**fields) == squad(PASSAGE, question=QUESTION) == expected
    for answer in squad.predict_batch([(PASSAGE, QUESTION), fields, [PASSAGE, QUESTION]]):
        assert answer[:3] == expected[:3]
    assert repr(squad) == "<TrainedModel squad(passage, question)>"
    ner, words = model("ner"), ["Ana", "Silva", "sings", "."]
    assert ner(tokens=words) == ner(" ".join(words)) == ner.predict_batch([{"tokens": words}])[0]
    assert ner.predict_batch(iter(())) == []
    assert [each.text for each in model("srl")("Ana sold her car.", predicates=[3])] == ["car"]


def test_what_is_improbable_is_left_out():
    sentence = "Anna Silva met Weaverly at the Hollow Bridge Club."
    entities = load("ner")(sentence)
    bound = sorted(each.probability for each in entities)[1]
    sure = [each for each in entities if each.probability >= bound]
    assert load("ner", min_probability=bound)(sentence) == sure != entities
    label, probabilities = load("topics")(sentence)
    best = probabilities[label]
    assert load("topics", min_probability=best)(sentence) == (label, probabilities)
    assert load("topics", min_probability=(best + 1) / 2)(sentence) == (None, probabilities)
    for name, bound in (("coref", 0.5), ("ner", 1.5)):
        with pytest.raises((ConfigurationError, ElmoError), match="min_probability"):
            load(name, min_probability=bound)


@pytest.mark.parametrize(
    ("examples", "names"),
    [
        (["Ana sings.", float("nan")], ["examples[1]", "sentence", "nan", 'fillna("")']),
        ([b"Ana"], ["examples[0]", "sentence", "b'Ana'"]),
        ([("Ana", "Silva")], ["examples[0]", "sentence", "Silva"]),
        (["Ana", {"text": "Ana"}], ["examples[1]", '"sentence"', '"text"']),
        (["Ana", "a" * 10_001], ["examples[1]", "10,001"]),
        (["Ana", "half of \ud83d"], ["examples[1]", "\\ud83d"]),
        ("Ana sings.", ["'Ana sings.'"]),
        (None, ["None"]),
        ({"sentence": "Ana sings."}, ["'Ana sings.'"]),
        (np.array([["Ana", "Silva"]]), ["'Ana'"]),
    ],
)
def test_examples_that_are_refused(model, examples, names):
    with pytest.raises(ConfigurationError) as caught:
        model("ner").predict_batch(examples)
    assert mentions(str(caught.value), *names)


@pytest.mark.parametrize(
    ("name", "texts", "fields"),
    [
        ("squad", [PASSAGE], {}),
        ("ner", [["Ana"]], {}),
        ("squad", [QUESTION], {"passage": PASSAGE}),
        ("srl", ["Ana sold her car."], {"predicate": [3]}),
    ],
)
def test_texts_that_are_refused(model, name, texts, fields):
    with pytest.raises(ConfigurationError):
        model(name)(*texts, **fields)


def test_results_have_their_places_in_the_text(model):
    mentions = [mention for cluster in model("coref")(STORY) for mention in cluster]
    assert {mention.text for mention in mentions} >= {"My sister", "She"}
    assert all(isinstance(each, Mention) for each in mentions)
    assert all(STORY[each.start : each.end] == each.text for each in mentions)
    predicates = model("srl")(STORY)
    assert {each.text for each in predicates} >= {"like", "feeds"}
    for each in predicates:
        assert STORY[each.start : each.end] == each.text
        for argument in each.arguments:
            parts = [STORY[start:end] for start, end in argument.spans]
            assert argument.text == " ... ".join(parts)


def test_names(tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="did you mean 'elmo:ner'"):
        load("NER")
    with pytest.raises(FileNotFoundError, match=r"file ner not found.*elmo:ner"):
        open_archive("ner")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ner").mkdir()
    assert "ner" in repr(load("ner"))
    (tmp_path / "ner/config.json").write_text("[]")
    with pytest.raises(ConfigurationError, match=r"^ner"):
        load("ner")
