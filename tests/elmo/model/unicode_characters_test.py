import numpy as np
import pytest

from elmo_tasks.elmo.model.characters import unicode_ids

FILLING = 261


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a한", [259, 262 + 0x61, 262 + 0xD55C, 260]),
        ("", [259, 260]),
        ("<bos>", [259, 257, 260]),
        ("<eos>", [259, 258, 260]),
        ("\U0010ffff\ud800", [259, 262 + 0x10FFFF, 262 + 0xD800, 260]),
        ("<S>", [259, *(262 + ord(c) for c in "<S>"), 260]),
        ("é" * 48, [259, *[262 + 0xE9] * 48, 260]),
        ("é" * 60, [259, *[262 + 0xE9] * 48, 260]),
    ],
)
def test_ids_of_a_word_and_behind_them_filling(word, expected):
    (ids,) = unicode_ids([word])
    assert ids.tolist() == expected + [FILLING] * (50 - len(expected))


def test_shape_and_type_of_ids():
    assert unicode_ids([]).shape == (0, 50)
    assert unicode_ids(["a", "b"]).dtype == np.int32
