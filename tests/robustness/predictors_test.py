"""Whatever a line says, each task's predictor has an instance for it, or an error that names the line."""

import json
from unittest.mock import Mock

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.predictors import Predictor
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.robustness.attempt import FUZZ, attempt

READERS = {
    **{f"elmo_{task}": {} for task in ("ner", "srl", "coref", "squad", "snli", "sst", "sentence")},
    "elmo_classifier": {"format": "jsonl", "classes": ["a", "b"], "sentence1": "x", "label": "y"},
    "elmo_bilm": {"streams": 2, "bptt_steps": 5},
}
FIELDS = [
    *("sentence", "tokens", "predicates", "document", "sentences", "speakers", "clusters", "doc_key"),
    *("passage", "question", "id", "premise", "hypothesis", "premise_tokens", "hypothesis_tokens"),
    *("sentence1", "sentence2"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
WORDS = st.text(max_size=4)
USUAL = st.one_of(
    st.text(max_size=30),
    st.lists(WORDS, max_size=4),
    st.lists(st.lists(WORDS, max_size=3), max_size=3),
    st.lists(st.integers(-2, 4), max_size=3),
    st.lists(st.lists(st.lists(st.integers(-1, 5), max_size=3), max_size=2), max_size=2),
)


def without_model(name, options):
    """A predictor for what is done before a model is asked."""
    reader = DatasetReader.from_params(Params({"type": name, **options}))
    model = nn.Linear(1, 1)
    model.first = Mock()  # type: ignore[assignment]
    return Predictor.by_name(name)(model, reader)


@pytest.fixture(scope="module", params=READERS)
def predictor(request):
    return without_model(request.param, READERS[request.param])


@settings(max_examples=40 * FUZZ)
@given(content=st.dictionaries(st.sampled_from(FIELDS), USUAL | VALUES, min_size=1, max_size=6))
@example(content={"document": "Ana left.", "doc_key": 5})
def test_any_content(predictor, content):
    _, message = attempt(
        predictor.example, predictor.load_line(json.dumps(content)), error=ConfigurationError
    )
    assert "Error: " not in message
