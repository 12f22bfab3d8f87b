"""Plain text to words that know where they stand in it."""

from collections.abc import Callable
from typing import NamedTuple

import spacy
from allennlp.common.checks import ConfigurationError


class Words(NamedTuple):
    """A text, its words, and for each word its characters `[start, end)` in the text."""

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]


def joined(words: list[str]) -> Words:
    """Words that come without their text: the text is the words with blanks between them."""
    offsets, start = [], 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return Words(" ".join(words), words, offsets)


def tokenizer(spacy_model: str | None = None) -> Callable[[str], Words]:
    """
    The tokenizer of an installed spaCy model, or of blank English, which needs none. White space is no word.

    # Raises
    `ConfigurationError` if the model is not installed; nothing is downloaded.
    """
    if spacy_model is None:
        tokenize = spacy.blank("en").tokenizer
    else:
        try:
            tokenize = spacy.load(spacy_model).tokenizer
        except OSError as error:
            raise ConfigurationError(
                f"the spaCy model {spacy_model!r} is not installed; install it with "
                f"`python -m spacy download {spacy_model}`, or leave spacy_model out"
            ) from error

    def run(text: str) -> Words:
        tokens = [token for token in tokenize(text) if not token.is_space]
        return Words(
            text,
            [token.text for token in tokens],
            [(token.idx, token.idx + len(token)) for token in tokens],
        )

    return run
