import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_tasks import strict_json
from tests.robustness.attempt import attempt

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
UNREADABLE = {
    "half of a surrogate pair": (r'"\ud83d"', "Half of a surrogate pair"),
    "5,000 digits": ("1" * 5000, "more than 4,300 digits"),
    "100,000 levels": ("[" * 100_000 + "]" * 100_000, "More than 100 levels"),
    "101 levels": ('{"a":' * 101 + "1" + "}" * 101, "More than 100 levels"),
    "NaN": ("NaN", "NaN is no number"),
    "-Infinity": ("-Infinity", "-Infinity is no number"),
}


@given(VALUES, st.booleans())
def test_what_json_writes_is_read(value, ascii_only):
    assert strict_json.loads(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(VALUES, st.integers(0), st.text(max_size=3))
def test_any_text_is_a_value_or_an_error_with_a_place(value, place, inserted):
    text = json.dumps(value)
    place %= len(text) + 1
    text = text[:place] + inserted + text[place + len(inserted) // 2 :]
    value, message = attempt(strict_json.loads, text, error=json.JSONDecodeError)
    assert re.search(r"\(char \d+\)", message) if message else value == json.loads(text)


@pytest.mark.parametrize(("text", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_former_findings(text, message):
    with pytest.raises(json.JSONDecodeError, match=message) as caught:
        strict_json.loads('{"a": "NaN ]", "b":\n ' + text + "}")
    assert caught.value.lineno == 2


def test_pairs_and_100_levels_are_read():
    assert strict_json.loads(r'"\ud83d\ude00"') == "\U0001f600"
    assert strict_json.loads("[" * 100 + "]" * 100)


def test_half_a_pair_that_is_not_escaped():
    with pytest.raises(json.JSONDecodeError, match="Half of a surrogate pair"):
        strict_json.loads('"\ud83d"')
