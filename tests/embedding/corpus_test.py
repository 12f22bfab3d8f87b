"""A text on disk. `tests/commands/copied_texts_test.py` has texts of files."""

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.corpus import MAX_TOKENS, SourceLine, write_corpus


def test_keys(tmp_path):
    lines = [SourceLine("in", i, f" {text} ") for i, text in enumerate(["a b", "", "c"], 1)]
    text = write_corpus(lines, tmp_path)
    assert not text.has_keys
    assert list(text.keyed_lines()) == [("0", "a b"), ("1", ""), ("2", "c")]
    digest = text.digest
    keys = ["first", "second\u2028", "a/third"]
    named = (line._replace(key=key) for line, key in zip(lines, keys, strict=True))
    text = write_corpus(named, tmp_path)
    assert text.has_keys
    assert list(text.keyed_lines()) == list(zip(keys, ["a b", "", "c"], strict=True))
    assert text.tokens == 3
    assert text.digest != digest


def test_a_line_that_is_too_long(tmp_path):
    with pytest.raises(ElmoError, match=r"in, line 7: .*65,537"):
        write_corpus([SourceLine("in", 7, "w " * (MAX_TOKENS + 1))], tmp_path)
