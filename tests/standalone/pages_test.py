"""The modules that become `predict.py` and its helpers, against those of the project."""

import random

import pytest

from elmo_tasks.data.tokenization import chosen_tokenizer
from elmo_tasks.elmo.model.characters import character_ids
from elmo_tasks.standalone.folder import tokenizer_settings
from elmo_tasks.standalone.pages.ids import byte_ids
from elmo_tasks.standalone.pages.tokenizer import tokenizer

PIECES = [*"()'\".,;:!-/&%€@_~ \n\t\u2013\u00a0\u200b😀", "''", "...", "  ", "word", "A", "10", "3.5", "km/h"]
PIECES += ["'s", "n't", "U.S.", "x@y.org", "http://a.bc/d?e=f", "Über", "中文"]
CHOICES = ["en", "de", "es", "ru", "xx", "whitespace", "characters", "elmo_syllables"]


@pytest.mark.parametrize("choice", CHOICES)
def test_splits_as_the_tokenizer_does(choice):
    """Also runs of more than 200 characters, which are cut, and cases with blanks."""
    original = chosen_tokenizer(choice)
    settings = tokenizer_settings(original)
    split = tokenizer(settings)
    draw = random.Random(3)
    pieces = PIECES + draw.sample(list(settings["cases"]), 10) if "cases" in settings else PIECES
    texts = ["".join(draw.choices(pieces, k=draw.randint(1, 9))) for _ in range(1500)]
    texts += ["".join(draw.choices("ab.-(') ", k=draw.randint(190, 450))) for _ in range(20)]
    for text in [*texts, "EE. UU. y EE.  UU.", "(don't)...", "", " \n"]:
        expected = [(token.idx, token.text) for token in original.tokenize(text)]
        assert [(start, text[start:end]) for start, end in split(text)] == expected, text


def test_ids_of_bytes():
    words = ["", "a", "Zoë", "<S>", "</S>", "x" * 48, "ü" * 30, "\ud800b"]
    assert [byte_ids(word) for word in words] == character_ids(words).tolist()
