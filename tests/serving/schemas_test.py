"""The fields in the OpenAPI document are those that the predictors read."""

from itertools import product

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.predictors import Predictor
from jsonschema import ValidationError, validate
from torch import nn

from elmo_tasks.serving.models import request_schema
from tests.robustness.predictors_test import READERS

VALUES = {
    str: "Ana flew .",
    list[str]: ["Ana", "flew", "."],
    list[list[str]]: [["Ana", "flew", "."], ["She", "slept", "."]],
    list[int]: [1],
}
PAIRS = {"format": "jsonl", "classes": ["a", "b"], "sentence1": "x", "sentence2": "z", "label": "y"}


@pytest.fixture(params=[*READERS.items(), ("elmo_classifier", PAIRS)], ids=str)
def predictor(request):
    name, options = request.param
    reader = DatasetReader.from_params(Params({"type": name, **options}))
    return Predictor.by_name(name)(nn.Linear(1, 1), reader)


def test_forms_are_read_whole_and_not_in_parts(predictor):
    assert predictor.forms
    schema = request_schema(predictor)
    # Without "predicates", a spaCy model finds the verbs.
    needed = {"predicates"} & predictor.optional_fields.keys()
    for form in predictor.forms:
        content = {name: VALUES[kind] for name, kind in form.items()}
        optional = {name: VALUES[kind] for name, kind in predictor.optional_fields.items()}
        optional = {
            name: value for name, value in optional.items() if name != "speakers" or "sentences" in form
        }
        for whole in (content | {name: optional[name] for name in needed}, content | optional):
            validate([whole, whole], schema)
            assert predictor.num_tokens(predictor._prepare(whole)) >= 3
        for name, wrong in product(form, (None, 1)):
            part = {other: value for other, value in (content | optional).items() if other != name}
            bad = part if wrong is None else part | {name: wrong}
            with pytest.raises(ValidationError):
                validate(bad, schema)
            with pytest.raises(ConfigurationError):
                predictor._prepare(bad)


def test_an_optional_field_has_a_value_or_is_not_there(predictor):
    schema = request_schema(predictor)
    for form in predictor.forms:
        content = {name: VALUES[kind] for name, kind in form.items()}
        validate(content, schema)
        for name in predictor.optional_fields:
            with pytest.raises(ValidationError):
                validate(content | {name: None}, schema)
