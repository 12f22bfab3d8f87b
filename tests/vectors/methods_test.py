import inspect

import numpy as np
import pytest

from elmo_tasks.vectors import DEFAULTS, ppmi_svd, skip_gram, train_table
from tests.vectors.texts import sentences


@pytest.mark.parametrize(("method", "function"), [("word2vec", skip_gram), ("svd", ppmi_svd)])
def test_each_method_has_all_of_its_settings(method, function):
    assert set(DEFAULTS[method]) == set(inspect.signature(function).parameters) - {"sentences"}


def test_settings_replace_the_defaults():
    text = sentences(20)
    found = train_table("svd", text, dim=3, window=2)
    expected = ppmi_svd(text, **DEFAULTS["svd"] | {"dim": 3, "window": 2})
    assert found.words == expected.words
    assert np.array_equal(found.vectors, expected.vectors)
