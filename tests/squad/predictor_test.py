import json

import pytest
from allennlp.predictors import Predictor

from elmo_tasks.squad.predictor import SquadPredictor
from tests.pipeline.archives import write_archive

PASSAGE = "  The choir (of St. Brannoc) rehearses on Tuesdays,  at half-past seven, in the old fire station."
QUESTION = "Where does the choir rehearse?"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_archive(tmp_path_factory.mktemp("squad") / "run", "squad", window=30, overlap=12)


@pytest.fixture(scope="module")
def predictor(run) -> SquadPredictor:
    return Predictor.from_path(str(run), import_plugins=False)


def test_an_answer_is_text_of_the_passage(predictor):
    result = predictor.predict(PASSAGE, QUESTION)
    assert json.loads(json.dumps(result)) == result
    assert result["answer"] == PASSAGE[result["char_start"] : result["char_end"]] != ""
    assert set(result) == {
        *("answer", "token_start", "token_end", "char_start", "char_end", "probability"),
        *("answerable", "n_best"),
    }
    assert len(result["n_best"]) == 5
    for answer in result["n_best"]:
        assert answer["text"] == PASSAGE[answer["char_start"] : answer["char_end"]]
    assert result["n_best"][0] == {
        "text": result["answer"],
        **{key: value for key, value in result.items() if key not in ("answer", "answerable", "n_best")},
    }


def test_options(run):
    predictor = Predictor.from_path(str(run), import_plugins=False, n_best=2, attention=True)
    # Three windows
    passage = " ".join([PASSAGE] * 4)
    result = predictor.predict(passage, QUESTION)
    assert len(result["n_best"]) == 2
    tokens, words = result["passage_tokens"], result["question_tokens"]
    assert "".join(tokens) == passage.replace(" ", "")
    assert [len(row) for row in result["question_attention"]] == [len(words)] * len(tokens)
    matrix = result["self_attention"]
    assert [len(row) for row in matrix] == [len(tokens)] * len(tokens)
    for index, row in enumerate(matrix):
        assert sum(row) == pytest.approx(1, abs=1e-4)
        assert row[index] == 0
        # A token attends within its window.
        seen = [column for column, value in enumerate(row) if value > 0]
        assert max(seen) - min(seen) < 30


def test_an_improbable_answer_is_left_out(run, predictor):
    expected = predictor.predict(PASSAGE, QUESTION)
    probability = expected["probability"]
    for bound in (probability, probability + 1e-3):
        bounded = Predictor.from_path(str(run), import_plugins=False, min_probability=bound)
        assert bounded.predict(PASSAGE, QUESTION) == expected
        expected |= dict.fromkeys(("token_start", "token_end", "char_start", "char_end")) | {"answer": ""}


def test_nothing_to_predict(run, predictor):
    nothing = dict.fromkeys(
        ("token_start", "token_end", "char_start", "char_end", "probability", "answerable")
    )
    expected = {"answer": "", **nothing, "n_best": []}
    inputs = [
        {"passage": " ", "question": QUESTION},
        {"passage": PASSAGE, "question": "\n", "id": "a"},
        {"passage": PASSAGE, "question": QUESTION},
    ]
    first, second, whole = predictor.predict_batch_json(inputs)
    assert (first, second) == (expected, {"id": "a", **expected})
    assert list(whole) == list(first)
    assert whole["answer"]
    with_attention = Predictor.from_path(str(run), import_plugins=False, attention=True)
    first, second, whole = with_attention.predict_batch_json(inputs)
    assert json.loads(json.dumps(first)) == first
    assert list(whole) == list(first)
    assert (first["passage_tokens"], second["question_tokens"]) == ([], [])
    assert first["question_tokens"] == whole["question_tokens"]
    assert second["passage_tokens"] == whole["passage_tokens"]
    assert first["question_attention"] == first["self_attention"] == []
