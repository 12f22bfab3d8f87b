"""
Plain text to words: functions whose words know where they stand in it, and tokenizers that a config chooses.

The tokenizer of a reader's config is part of its archive, so that prediction splits text as training did.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Tokenizer

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name

if TYPE_CHECKING:
    import spacy
    from spacy import Language
    from spacy.tokens import Doc

MAX_STRINGS = 100_000
"""New strings that a pipeline of spaCy keeps; they are some 40 MB."""
MAX_CHARACTERS = 10_000_000
"""Characters that a pipeline of spaCy reads, since each string may be long."""
MAX_RUN = 200
"""Signs without white space that spaCy's rules get at once; 20 letters and more count as one."""
_PIECE = 1000
"""Characters, about, that they get at once of a text."""
_RUN = re.compile(rf"\s*(?:[^\W_]{{20,}}|\S){{1,{MAX_RUN}}}\s*|\s+")
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


class PiecewiseRules:
    """
    spaCy's rules for a text of any length. For a run of signs such as `====` their time grows with the square
    of its length, to 30 seconds for 10,000 signs, and no other thread runs meanwhile. So they get the text in
    pieces, between which others run, cut at white space and behind `MAX_RUN` signs without any.
    """

    def __init__(self, rules: "spacy.tokenizer.Tokenizer") -> None:
        self._rules = rules

    def __call__(self, text: str) -> "Doc":
        from spacy.tokens import Doc

        docs = [self._rules(piece) for piece in _pieces(text)]
        if len(docs) == 1:
            return docs[0]
        # None of no pieces
        return Doc.from_docs(docs, ensure_whitespace=False) or Doc(self._rules.vocab)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    for run in _RUN.finditer(text):
        end = run.end()
        if end - start >= _PIECE or not text[end - 1].isspace():
            yield text[start:end]
            start = end
    if start < len(text):
        yield text[start:]


class RenewedPipeline:
    """
    A pipeline of spaCy, which is made anew before it has read too much: it keeps each new word for ever.
    (spaCy's `memory_zone` does not: but in it no word is known from the text before, so that short texts take
    five times as long, and a thread has to wait for the others.)

    # Parameters

    make : makes the pipeline.
    """

    def __init__(self, make: Callable[[], "Language"]) -> None:
        self._make = make
        self._renew()

    def __call__(self, characters: int) -> "Language":
        """The pipeline for a text of so many characters. Threads may ask for it at the same time."""
        language = self._language
        self._characters += characters
        if self._characters > MAX_CHARACTERS or len(language.vocab.strings) > self._most_strings:
            language = self._renew()
        return language

    def _renew(self) -> "Language":
        import spacy

        language = self._make()
        if isinstance(language.tokenizer, spacy.tokenizer.Tokenizer):
            language.tokenizer = PiecewiseRules(language.tokenizer)
        self._most_strings = len(language.vocab.strings) + MAX_STRINGS
        self._characters = 0
        self._language = language
        return language


def analysed(language: "Language", words: list[str]) -> "Doc":
    """What a pipeline of spaCy finds in a text that is split already, a token a word."""
    from spacy.tokens import Doc

    # spaCy has no empty words
    return language(Doc(language.vocab, words=[word or "_" for word in words]))


def tokenizer(spacy_model: str | None = None) -> Callable[[str], Words]:
    """
    The tokenizer of an installed spaCy model, or of blank English, which needs none. White space is no word.

    # Raises
    `ConfigurationError` if the model is not installed; nothing is downloaded.
    """
    pipeline = RenewedPipeline(partial(_language, spacy_model))

    def run(text: str) -> Words:
        tokens = [token for token in pipeline(len(text)).tokenizer(text) if not token.is_space]
        return Words(
            text,
            [token.text for token in tokens],
            [(token.idx, token.idx + len(token)) for token in tokens],
        )

    return run


cached_tokenizer = lru_cache(maxsize=None)(tokenizer)
"""As `tokenizer`, which is made once for a model."""


def _language(spacy_model: str | None) -> "Language":
    import spacy  # takes a third of a second

    if spacy_model is None:
        return spacy.blank("en")
    try:
        return spacy.load(spacy_model)
    except OSError as error:
        raise ConfigurationError(
            f"the spaCy model {spacy_model!r} is not installed; install it with "
            f"`python -m spacy download {spacy_model}`, or leave spacy_model out"
        ) from error


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


def sentence_rules(language: str) -> "Language":
    """
    `language_rules`, and where sentences end.

    # Raises
    `ConfigurationError`: see `language_rules`.
    """
    rules = language_rules(language)
    rules.add_pipe("sentencizer")
    return rules


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
        self._pipeline = RenewedPipeline(partial(language_rules, language))

    def tokenize(self, text: str) -> list[Token]:
        tokens = self._pipeline(len(text)).tokenizer(text)
        return [Token(token.text) for token in tokens if not token.is_space]


@Tokenizer.register("elmo_syllables")
class Syllables(StrictParams, Tokenizer):
    """Each Hangul syllable, each run of other letters and digits, and each other character is a token."""

    def __init__(self) -> None:
        super().__init__()

    def tokenize(self, text: str) -> list[Token]:
        return [Token(token) for token in _SYLLABLES.findall(text)]
