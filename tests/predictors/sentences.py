"""What every predictor of a sentence does with wrong input."""

import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.predictors.json_lines import JsonLinesPredictor

WRONG_FIELDS = [
    ({}, 'found the fields: none; expected "sentence": a string, or "tokens"'),
    ({"sentence": 5}, '"sentence" is 5; expected "sentence": a string'),
    ({"tokens": "Ana flew"}, '"tokens" is "Ana flew"; expected'),
    ({"tokens": ["Ana", None]}, '"tokens" has None at position 1; expected strings'),
]
"""Inputs, and what the error says of each."""


def assert_results_before_a_bad_line_come_out(predictor: JsonLinesPredictor, words: list[str]) -> None:
    fresh = type(predictor)(predictor._model, predictor._dataset_reader)
    good = json.dumps({"sentence": " ".join(words)})
    results = fresh.predict_batch_json([fresh.load_line(line) for line in (good, "[1]", good)])
    assert next(results)["tokens"] == words
    with pytest.raises(ConfigurationError, match=r"line 2 .* found \[1\], expected a JSON object"):
        next(results)
