import json
import pickle

from elmo_tasks.serving.answers import Answers, Limits, Refusal, ToExplain
from tests.serving.clients import Doubling


def test_lines_and_refusals():
    answers = Answers(Doubling(), Limits(max_tokens=20))
    inputs = [{"text": text} for text in ("ä", 1, 13 * "x", 21 * "x")]
    assert answers(inputs) == [
        '{"doubled": 2}',
        Refusal(422, '"text" is 1; expected "text": a string'),
        Refusal(500, "the model failed at this input; the log of the service says how"),
        Refusal(422, "found 21 tokens to read, expected at most 20"),
    ]


def test_a_line_is_that_of_predict():
    predictor = Doubling()
    predictor.dump_line = lambda result: json.dumps(result, indent=1) + "\n"
    assert Answers(predictor, Limits())([{"text": "a"}]) == ['{\n "doubled": 2\n}']


def test_what_is_to_be_explained():
    """It may go to another process; a model without explanations says so, and what is wrong comes first."""
    inputs = pickle.loads(pickle.dumps([ToExplain({"text": "a"}), ToExplain({"text": 1}), {"text": "a"}]))
    assert Answers(Doubling(), Limits())(inputs) == [
        Refusal(422, "found a model that cannot be explained"),
        Refusal(422, '"text" is 1; expected "text": a string'),
        '{"doubled": 2}',
    ]
