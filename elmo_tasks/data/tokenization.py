"""
Plain text to words: functions that return words and their places, and tokenizers that a config chooses.

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
"""New strings that a pipeline of spaCy may keep; they take some 40 MB."""
MAX_CHARACTERS = 10_000_000
"""Characters that a pipeline of spaCy may read, since each string may be long."""
MAX_RUN = 200
"""Signs without white space that spaCy's rules get at once; 20 or more letters in a row count as one."""
_PIECE = 1000
"""Characters of a text, about, that spaCy's rules get at once."""
_RUN = re.compile(rf"\s*(?:[^\W_]{{20,}}|\S){{1,{MAX_RUN}}}\s*|\s+")
_SYLLABLE = "[\uac00-\ud7a3]|[\u1100-\u115f]+[\u1160-\u11a7]+[\u11a8-\u11ff]*"
"""A Hangul syllable: one character, or the letters that compose it."""
_SYLLABLES = re.compile(rf"{_SYLLABLE}|(?:(?!{_SYLLABLE})\w)+|[^\w\s]")


class Words(NamedTuple):
    """A text, its words, and the characters `[start, end)` of each word in the text."""

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]


def join_words(words: list[str]) -> Words:
    """Returns words that come without a text, with the text that joins them by blanks."""
    offsets, start = [], 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return Words(" ".join(words), words, offsets)


def tokenizer(spacy_model: str | None = None) -> Callable[[str], Words]:
    """
    Returns the tokenizer of an installed spaCy model, or of blank English, which needs none. White space is
    no word.

    # Raises
    `ConfigurationError` if the model is not installed; nothing is downloaded.
    """
    make = partial(_installed_model, spacy_model) if spacy_model else partial(language_rules, "en")
    pipeline = RenewedPipeline(make)

    def tokenize(text: str) -> Words:
        tokens = pipeline.tokens(text)
        offsets = [(token.idx, token.idx + len(token)) for token in tokens]
        return Words(text, [token.text for token in tokens], offsets)

    return tokenize


cached_tokenizer = lru_cache(maxsize=None)(tokenizer)
"""Like `tokenizer`, but makes one for each model."""


def _installed_model(name: str) -> "Language":
    import spacy  # takes a third of a second

    try:
        return spacy.load(name)
    except OSError as error:
        raise ConfigurationError(
            f"the spaCy model {name!r} is not installed; install it with `python -m spacy download {name}`, "
            "or leave spacy_model out"
        ) from error


def language_rules(language: str, *, sentences: bool = False) -> "Language":
    """
    Returns spaCy's rules for a language, by its code; with `sentences` also for the ends of sentences.

    # Raises
    `ConfigurationError`: spaCy has no such language, or needs another package for it.
    """
    import spacy

    try:
        rules = spacy.blank(language)
    except ImportError as error:
        raise ConfigurationError(f"language: found {language!r}, expected one of spaCy's: {error}") from error
    if sentences:
        rules.add_pipe("sentencizer")
    return rules


@Tokenizer.register("elmo_spacy")
class SpacyRules(StrictParams, Tokenizer):
    """
    A tokenizer with spaCy's rules for a language: no trained model is needed. White space is no token.

    # Parameters

    language : spaCy's code; `xx` for the rules that all languages share, as Korean's own rules need MeCab.

    # Raises
    `ConfigurationError`: see `language_rules`.
    """

    def __init__(self, *, language: Name = "en") -> None:
        self._pipeline = RenewedPipeline(partial(language_rules, language))

    def tokenize(self, text: str) -> list[Token]:
        return [Token(token.text) for token in self._pipeline.tokens(text)]


@Tokenizer.register("elmo_syllables")
class Syllables(StrictParams, Tokenizer):
    """A tokenizer into Hangul syllables, runs of other letters and digits, and other single characters."""

    def __init__(self) -> None:
        super().__init__()

    def tokenize(self, text: str) -> list[Token]:
        return [Token(token) for token in _SYLLABLES.findall(text)]


class RenewedPipeline:
    """
    A pipeline of spaCy that is made anew before it has read too much, since it keeps each new word forever.
    spaCy's `memory_zone` does not keep them, but it knows no word of the texts before, so that short texts
    take five times as long, and a thread has to wait for the others.

    # Parameters

    make : makes the pipeline.
    """

    def __init__(self, make: Callable[[], "Language"]) -> None:
        self._make = make
        self._renew()

    def __call__(self, characters: int) -> "Language":
        """Returns the pipeline for a text of so many characters. Threads may call this at the same time."""
        language = self._language
        self._characters += characters
        if self._characters > MAX_CHARACTERS or len(language.vocab.strings) > self._max_strings:
            language = self._renew()
        return language

    def tokens(self, text: str) -> list["spacy.tokens.Token"]:
        """Returns the tokens of a text that are not white space."""
        return [token for token in self(len(text)).tokenizer(text) if not token.is_space]

    def analyze(self, words: list[str]) -> "Doc":
        """Returns the pipeline's analysis of a text that is split into words, with a token for each."""
        from spacy.tokens import Doc

        language = self(sum(map(len, words)))
        # spaCy has no empty words.
        return language(Doc(language.vocab, words=[word or "_" for word in words]))

    def _renew(self) -> "Language":
        import spacy

        language = self._make()
        if isinstance(language.tokenizer, spacy.tokenizer.Tokenizer):
            language.tokenizer = PiecewiseRules(language.tokenizer)
        self._max_strings = len(language.vocab.strings) + MAX_STRINGS
        self._characters = 0
        self._language = language
        return language


class PiecewiseRules:
    """
    spaCy's rules for a text of any length. Their time grows with the square of a run of signs such as `====`,
    to 30 seconds for 10,000 signs, and no other thread runs meanwhile. So they get the text in pieces, which
    are cut at white space and after `MAX_RUN` signs without any; other threads run between the pieces.
    """

    def __init__(self, rules: "spacy.tokenizer.Tokenizer") -> None:
        self._rules = rules

    def __call__(self, text: str) -> "Doc":
        from spacy.tokens import Doc

        docs = [self._rules(piece) for piece in _pieces(text)]
        if len(docs) == 1:
            return docs[0]
        # `from_docs` returns None if there are no pieces.
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
