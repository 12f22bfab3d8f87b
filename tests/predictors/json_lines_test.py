import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.predictors.json_lines import JsonLinesPredictor
from elmo_tasks.predictors.text import require
from tests.errors import mentions
from tests.predictors.fake import Counting

EMPTY = {"doubled": None}


class Doubling(Counting, JsonLinesPredictor):
    """Doubles the field `text`."""

    def read(self, json_dict):
        return require(json_dict, "text", str, '"text": a string')

    def empty_result(self, content):
        return EMPTY if content == "" else None


@pytest.fixture
def predictor():
    return Doubling()


def test_results_in_their_order(predictor):
    """The model runs once for those that need it."""
    inputs = [{"text": text} for text in ("a", "", "bcd", "")]
    assert predictor.predict_batch_json([]) == []
    assert predictor.predict_json({"text": ""}) == EMPTY
    assert predictor.batches == []
    assert predictor.predict_batch_json(iter(inputs)) == [{"doubled": 2}, EMPTY, {"doubled": 6}, EMPTY]
    assert predictor.batches == [2]
    assert predictor.predict_json(inputs[2]) == {"doubled": 6}
    assert predictor.batches == [2, 1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]\n", "found [1]"),
        ('"' + 100 * "x" + '"', f'found "{79 * "x"}...'),
        ('{"text": }\n', "not JSON (Expecting value, column 10): "),
        ('{"words": "a", "id": 1}', 'found the fields: "words", "id"'),
        ('{"text": ["a"]}', '"text" is ["a"]'),
    ],
)
@pytest.mark.parametrize("before", [0, 2])
def test_results_before_a_bad_line_come_out(predictor, line, message, before):
    good = json.dumps({"text": "a"})
    results = predictor.predict_each(list(map(predictor.load_line, [good] * before + [line, good])))
    assert [next(results) for _ in range(before)] == [{"doubled": 2}] * before
    with pytest.raises(ConfigurationError) as caught:
        next(results)
    assert mentions(str(caught.value), f"line {before + 1} ", f"{message}")
    # The next batch's lines
    with pytest.raises(ConfigurationError, match=rf"line {before + 3} "):
        predictor.predict_json(predictor.load_line("5"))


class Breaking(Doubling):
    """Breaks at texts of three letters, and has a token for each letter."""

    error: type[Exception] = RuntimeError

    def num_tokens(self, instance):
        return instance["length"].metadata

    def predict_batch_instance(self, instances):
        if any(instance["length"].metadata == 3 for instance in instances):
            raise self.error("three")
        return super().predict_batch_instance(instances)

    def predict_instance(self, instance):
        return self.predict_batch_instance([instance])[0]


@pytest.mark.parametrize("error", [IndexError, ValueError, RuntimeError, MemoryError])
def test_results_before_a_line_that_breaks_the_model_come_out(error):
    predictor = Breaking()
    predictor.error = error
    results = predictor.predict_each(
        [predictor.load_line(f'{{"text": "{text}"}}') for text in ("a", "bcd", "e")]
    )
    assert next(results) == {"doubled": 2}
    with pytest.raises(ConfigurationError, match=rf"line 2 \(.*\): {error.__name__}: three"):
        next(results)


def test_an_object_has_no_line(predictor):
    assert predictor.load_line('{"text": "a", "b": 1}\n') == {"text": "a", "b": 1}
    with pytest.raises(ConfigurationError) as caught:
        predictor.predict_json({})
    assert str(caught.value) == 'found the fields: none; expected "text": a string'


def test_answers_have_errors_of_inputs_and_of_the_model():
    predictor = Breaking()
    answers = predictor.answers([{"text": text} for text in ("aa", "", 1, "abcdef", "abc", "a")], 5)
    assert [answers[i] for i in (0, 1, 5)] == [{"doubled": 4}, EMPTY, {"doubled": 2}]
    assert [(type(answer), str(answer)) for answer in answers[2:5]] == [
        (ConfigurationError, '"text" is 1; expected "text": a string'),
        (ConfigurationError, "found 6 tokens to read, expected at most 5"),
        (RuntimeError, "three"),
    ]


def test_answers_come_from_batches_with_a_limit_of_tokens():
    predictor = Breaking()
    texts = ["aa", "aa", "a", "aaaa", "a", "aaaaa"]
    answers = predictor.answers([{"text": text} for text in texts], 5)
    assert answers == [{"doubled": 2 * len(text)} for text in texts]
    # A batch has as many tokens as its longest text, times its texts
    assert predictor.batches == [2, 2, 1, 1]
