import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_tasks.data.normalization import normalized


@pytest.mark.parametrize("text", ["plain", "é", "می‌روم", "👨‍👩‍👧", ""])
def test_texts_that_stay(text):
    assert normalized(text) == (text, None)


@given(st.text(st.sampled_from("ae\u0301\u0302\u200b\ufeff\u1112\u1161\u11ab 😀")))
def test_each_character_has_its_origin(text):
    plain, origins = normalized(text)
    assert unicodedata.is_normalized("NFC", plain)
    if origins is not None:
        assert len(origins) == len(plain)
        for character, (start, end) in zip(plain, origins, strict=True):
            assert character in normalized(text[start:end]).text
