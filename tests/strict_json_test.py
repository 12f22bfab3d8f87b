import json

import pytest

from elmo_tasks.common import strict_json

UNREADABLE = {
    "half of a surrogate pair": (r'"\ud83d"', "Half of a surrogate pair"),
    "5,000 digits": ("1" * 5000, "more than 4,300 digits"),
    "100,000 levels": ("[" * 100_000 + "]" * 100_000, "More than 100 levels"),
    "101 levels": ('{"a":' * 101 + "1" + "}" * 101, "More than 100 levels"),
    "NaN": ("NaN", "NaN is no number"),
    "-Infinity": ("-Infinity", "-Infinity is no number"),
}


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
