"""
Plain text to words: functions whose words know where they stand in it, and tokenizers that a config chooses.

The tokenizer of a reader's config is part of its archive, so that prediction splits text as training did.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Tokenizer

from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import Name

if TYPE_CHECKING:
    from spacy import Language

_SYLLABLE = "[\uac00-\ud7a3]|[\u1100-\u115f]+[\u1160-\u11a7]+[\u11a8-\u11ff]*"
"""A Hangul syllable, in one character or in the letters that it is composed of."""
_SYLLABLES = re.compile(rf"{_SYLLABLE}|(?:(?!{_SYLLABLE})\w)+|[^\w\s]")


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
    import spacy  # takes a third of a second

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


cached_tokenizer = lru_cache(maxsize=None)(tokenizer)
"""As `tokenizer`, which is made once for a model."""


def language_rules(language: str) -> "Language":
    """
    spaCy's rules for a language, by its code.

    # Raises
    `ConfigurationError`: spaCy does not know the language, or needs another package for it.
    """
    import spacy

    try:
        return spacy.blank(language)
    except ImportError as error:
        raise ConfigurationError(f"language: found {language!r}, expected one of spaCy's: {error}") from error


@Tokenizer.register("elmo_spacy")
class SpacyRules(StrictParams, Tokenizer):
    """
    spaCy's rules for a language: no trained model is needed. White space is no token.

    # Parameters

    language : spaCy's code; `xx` for what all languages have in common: Korean's own rules need MeCab.

    # Raises
    `ConfigurationError`: see `language_rules`.
    """

    def __init__(self, *, language: Name = "en") -> None:
        self._tokenize = language_rules(language).tokenizer

    def tokenize(self, text: str) -> list[Token]:
        return [Token(token.text) for token in self._tokenize(text) if not token.is_space]


@Tokenizer.register("elmo_syllables")
class Syllables(StrictParams, Tokenizer):
    """Each Hangul syllable, each run of other letters and digits, and each other character is a token."""

    def __init__(self) -> None:
        super().__init__()

    def tokenize(self, text: str) -> list[Token]:
        return [Token(token) for token in _SYLLABLES.findall(text)]
