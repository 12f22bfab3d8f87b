from pathlib import Path

import pytest

from elmo_tasks.common.errors import ElmoError


@pytest.mark.parametrize(("line", "where"), [(3, "a/words, line 3"), (None, "a/words")])
@pytest.mark.parametrize("kind", [str, Path])
def test_says_where_what_was_found_and_what_was_expected(kind, line, where):
    error = ElmoError.at(kind("a/words"), line, found="an empty line", expected="a word")
    assert isinstance(error, ValueError)
    assert str(error) == f"{where}: found an empty line, expected a word"
