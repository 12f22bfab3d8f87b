"""`load`: what a trained model takes, what it refuses, and the offsets of its results in the text."""

import re

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks import load
from elmo_tasks.archives.opening import open_archive
from elmo_tasks.predictors.trained import Mention, TrainedModel

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
    assert repr(squad) == "<TrainedModel elmo_squad(passage, question)>"
    ner, words = model("ner"), ["Ana", "Silva", "sings", "."]
    assert ner(tokens=words) == ner(" ".join(words)) == ner.predict_batch([{"tokens": words}])[0]
    assert ner.predict_batch(iter(())) == []
    assert [each.text for each in model("srl")("Ana sold her car.", predicates=[3])] == ["car"]


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (["Ana sings.", float("nan")], "examples[1]: found nan, expected a text: sentence"),
        ([None], "examples[0]: found None, expected a text: sentence"),
        ([b"Ana"], "examples[0]: found b'Ana', expected a text: sentence"),
        ([("Ana", "Silva")], "examples[0]: found 2 texts, expected 1: sentence"),
        (["Ana", {"text": "Ana"}], 'examples[1]: found the fields: "text"; expected "sentence": a string'),
        (["Ana", "a" * 10_001], "examples[1]: found a word of 10,001 characters"),
        (["Ana", "half of \ud83d"], "examples[1]: \"sentence\": found '\\ud83d' at offset 8 of 'half of "),
        ("Ana sings.", "found 'Ana sings.', expected a list of examples"),
        ({"sentence": "Ana sings."}, "expected a list of examples"),
        (np.array([["Ana", "Silva"]]), "expected a list of examples"),
    ],
)
def test_examples_that_are_refused(model, examples, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        model("ner").predict_batch(examples)


def test_texts_that_are_refused(model):
    with pytest.raises(ConfigurationError, match="found 1 texts, expected 2: passage, question"):
        model("squad")(PASSAGE)
    with pytest.raises(ConfigurationError, match=r"found \['Ana'\], expected a text: sentence"):
        model("ner")(["Ana"])
    with pytest.raises(ConfigurationError, match="expected a text: passage, question"):
        model("squad").predict_batch([(PASSAGE, None)])
    with pytest.raises(ConfigurationError, match="found 'passage' as a text and by its name"):
        model("squad")(QUESTION, passage=PASSAGE)
    with pytest.raises(ConfigurationError, match="'predicate', expected one of sentence, tokens, predicates"):
        model("srl")("Ana sold her car.", predicate=[3])


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("ner", {"sentence": "\ud83d"}),
        ("ner", {"tokens": ("Ana", "\ud83d")}),
        ("srl", {"sentence": "Ana \ud83d sold her car."}),
        ("coref", {"sentences": [["Ana"], ["\udc00"]]}),
        ("snli", {"premise": "It rains.", "hypothesis": "It rains \ud83d."}),
    ],
)
def test_half_of_a_surrogate_pair_is_no_character(model, name, fields):
    """As in the lines of `predict` and the requests of `serve`."""
    with pytest.raises(ConfigurationError, match="half of a surrogate pair, which is no character"):
        model(name)(**fields)


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


def test_one_long_text_costs_the_short_ones_nothing(model):
    ner = model("ner")
    short = "Ana Silva flew to Lisbon on Monday ."
    sizes = []
    forward = ner.predictor._model.register_forward_hook(
        lambda module, arguments, outputs: sizes.append(len(outputs["metadata"]))
    )
    *results, long = ner.predict_batch([*[short] * 20, " ".join([short] * 150)])
    forward.remove()
    assert sizes == [20, 1]
    assert [each.text for each in results[0]] == ["Ana Silva", "Lisbon"]
    assert len(long) > 150


def test_names(tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="did you mean 'elmo:ner'"):
        load("NER")
    with pytest.raises(FileNotFoundError, match="file ner not found; did you mean 'elmo:ner'"):
        open_archive("ner")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ner").mkdir()
    assert "elmo_ner" in repr(load("ner"))
    (tmp_path / "ner/config.json").write_text("[]")
    with pytest.raises(ConfigurationError, match="expected an object"):
        load("ner")
