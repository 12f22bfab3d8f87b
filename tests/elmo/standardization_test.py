import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.export import standardize_tokens
from tests.elmo.files import random_bilm


@pytest.mark.parametrize(
    ("sizes", "text", "message"),
    [
        ({}, [[], []], "0 distinct words"),
        ({}, [["the", "the"], ["the"]], "1 distinct words"),
        ({"projection_dim": 18}, [["the", "cat"]], "no projection"),
    ],
)
def test_what_cannot_be_standardized(sizes, text, message):
    with pytest.raises(ElmoError, match=message):
        standardize_tokens(random_bilm(**sizes), text)
