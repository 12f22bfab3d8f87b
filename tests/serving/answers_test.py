import json

from elmo_tasks.serving.answers import Answers, Limits, Refusal
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
