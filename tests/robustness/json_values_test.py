import json
import re

from hypothesis import given
from hypothesis import strategies as st

from elmo_tasks.common.files import json_value
from tests.robustness.attempt import attempt

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_what_json_writes_is_read(value, ascii_only):
    assert json_value(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(VALUES, st.integers(0), st.text(max_size=3))
def test_any_text_is_a_value_or_an_error_with_a_position(value, position, inserted):
    text = json.dumps(value)
    position %= len(text) + 1
    text = text[:position] + inserted + text[position + len(inserted) // 2 :]
    value, message = attempt(json_value, text, error=json.JSONDecodeError)
    assert re.search(r"\(char \d+\)", message) if message else value == json.loads(text)
