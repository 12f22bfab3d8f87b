"""The predictor of a small model, by the name of its config."""

import pytest
from allennlp.predictors import Predictor

from tests.pipeline.archives import predictor_of


@pytest.fixture(scope="module")
def predictor(config: str) -> Predictor:
    return predictor_of(config)
