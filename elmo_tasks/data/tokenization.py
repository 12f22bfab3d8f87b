"""
Plain text to words: functions that return words and their offsets, and tokenizers that a config chooses.

The tokenizer of a reader's config is part of its archive, so that prediction splits text as training did.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Tokenizer

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.strict_params import ConfigError, StrictParams
from elmo_tasks.common.values import Name
from elmo_tasks.data.normalization import normalized

if TYPE_CHECKING:
    import spacy
    from spacy import Language
    from spacy.tokens import Doc

MAX_STRINGS = 100_000
"""New strings that a pipeline of spaCy may keep; they take some 40 MB."""
MAX_CHARACTERS = 10_000_000
"""Characters that a pipeline of spaCy may read, since each string may be long."""
MAX_RUN = 200
"""Characters without white space in one piece for spaCy's rules; 20 or more letters in a row count as one."""
_PIECE = 1000
"""The approximate number of characters in one piece of a text for spaCy's rules."""
_RUN = re.compile(rf"\s*(?:[^\W_]{{20,}}|\S){{1,{MAX_RUN}}}\s*|\s+")
_SYLLABLE = "[\uac00-\ud7a3]|[\u1100-\u115f]+[\u1160-\u11a7]+[\u11a8-\u11ff]*"
"""A Hangul syllable: one character, or the letters that compose it."""
_SYLLABLES = re.compile(rf"{_SYLLABLE}|(?:(?!{_SYLLABLE})\w)+|[^\w\s]")
_LETTERS = 4
"""The letters that a word of Chinese, Japanese or Thai has on average, at most."""
_PLAIN = {"characters": re.compile(r"\S"), "whitespace": re.compile(r"\S+")}
_LANGUAGE = re.compile("[a-z]{2,3}")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+")
_SOUTH_EAST_ASIAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Burmese and Khmer, which are written without blanks between words."""
_WORD_AND_PUNCTUATION = re.compile(r"\w*[^\W\d_]{2}[.,;:!?]+[\"')]*")
_UNSPACED_PUNCTUATION = re.compile("[\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]")
_LONG = 12
"""Characters that the words of a line have on average only where no blanks are between them."""


class Words(NamedTuple):
    """A text, its words, and the characters `[start, end)` of each word in the text."""

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]


TokenizerChoice = Union[str, Tokenizer]
"""The key `tokenizer` of readers and predictors, see `chosen_tokenizer`."""


def tokenizer(choice: TokenizerChoice | None = None) -> Callable[[str], Words]:
    """Returns a function that splits a text into words, see `chosen_tokenizer`, without white space."""
    return partial(split_words, chosen_tokenizer(choice))


def chosen_tokenizer(choice: TokenizerChoice | None) -> Tokenizer:
    """
    Returns the tokenizer with a name; by default spaCy's rules for English, which need no model.

    - `characters`: each character that is not white space is a word. `whitespace`: words between blanks.
    - The registered name of a tokenizer without parameters, such as `elmo_syllables`.
    - A language by spaCy's code, such as `de`: its rules. `xx`: the rules that all languages share.
    - Any other name: an installed spaCy model, such as `en_core_web_sm`; nothing is downloaded.
    """
    if choice is None:
        return SpacyRules()
    if not isinstance(choice, str):
        return choice
    if choice in _PLAIN:
        return Matches(_PLAIN[choice])
    if choice in Tokenizer.list_available():
        return Tokenizer.from_params(Params({"type": choice}))
    return SpacyRules(language=choice) if _LANGUAGE.fullmatch(choice) else SpacyRules(model=choice)


cached_tokenizer = lru_cache(maxsize=None)(chosen_tokenizer)


def split_words(tokenizer: Tokenizer, text: str) -> Words:
    """
    Returns the words of a text, which are `normalized`, and their offsets in the given text. Words that are
    not in it are an error.
    """
    words: list[str] = []
    offsets: list[tuple[int, int]] = []
    end = 0
    plain, origins = normalized(text)
    for token in tokenizer.tokenize(plain):
        word = token.text or ""
        # Most of AllenNLP's own tokenizers do not give offsets.
        start = plain.find(word, end) if token.idx is None else token.idx
        if start < 0:
            raise ConfigurationError(
                f"the tokenizer makes {word!r} of {plain[end : end + 40]!r}, and must make words of the text"
            )
        end = start + len(word)
        if word.strip():
            words.append(word)
            offsets.append((start, end) if origins is None else (origins[start][0], origins[end - 1][1]))
    return Words(text, words, offsets)


def is_split_into_characters(words: Iterable[str]) -> bool:
    """
    Returns whether the words of a vocabulary are single characters, as in much data of Chinese, Japanese and
    Korean: 19 of 20 words in these scripts, or more, have one character.
    """
    lengths = [len(word) for word in words if _EAST_ASIAN.fullmatch(word)]
    return 0 < len(lengths) <= 1.05 * lengths.count(1)


def tokenizer_of_script(text: str) -> str | None:
    """Returns the tokenizer that suits a script without blanks between words, or Hangul, or `None`."""
    letters = sum(map(str.isalpha, text))
    hangul = len(_HANGUL.findall(text))
    if 2 * hangul > letters:
        return "elmo_syllables"
    unspaced = sum(map(len, _EAST_ASIAN.findall(text))) + len(_SOUTH_EAST_ASIAN.findall(text))
    return "characters" if 2 * unspaced > letters else None


def tokenizer_of_texts(texts: Sequence[str]) -> str | None:
    """Returns `characters` for raw texts in a script without blanks between words, or `None`."""
    text = " ".join(texts)
    words = len(text.split())
    is_raw = 2 * words < 3 * len(texts) or sum(map(str.isalpha, text)) > _LETTERS * words
    return "characters" if is_raw and tokenizer_of_script(text) == "characters" else None


def first_raw_word(lines: Iterable[str]) -> tuple[int, str] | None:
    """
    Returns the first word that shows that a text is not tokenised, and the index of its line, or `None`. More
    than half of the lines show it: a single one may end in an abbreviation.
    """
    words = [(index, _raw_word(line)) for index, line in enumerate(lines) if line.strip()]
    raw = [(index, word) for index, word in words if word is not None]
    return raw[0] if 2 * len(raw) > len(words) else None


def _raw_word(line: str) -> str | None:
    """
    Returns a word that shows that a line is not tokenised, or `None`. It is a word with punctuation at its
    end, or the longest word in a script without blanks.
    """
    words = line.split()
    if any(not any(map(str.isalnum, word)) for word in words):
        return None
    if tokenizer_of_script(line) == "characters":
        longest = max(words, key=len)
        is_raw = _UNSPACED_PUNCTUATION.search(longest) or len(line) > _LONG * len(words)
        return longest if is_raw else None
    return next(filter(_WORD_AND_PUNCTUATION.fullmatch, words), None) if len(words) > 2 else None


def _installed_model(name: str) -> "Language":
    import spacy  # takes a third of a second

    remedy = f"`python -m spacy download {name}`, or choose characters, whitespace, or a language such as en"
    with errors_as(ConfigError, f"there is no spaCy model {name!r}", OSError, key="tokenizer", remedy=remedy):
        return spacy.load(name)


def language_rules(language: str, *, sentences: bool = False) -> "Language":
    """Returns spaCy's rules for a language by its code, if there are any, or a `ConfigurationError`."""
    import spacy

    with errors_as(ConfigError, f"spaCy has no {language!r}", ImportError, key="language"):
        rules = spacy.blank(language)
    if sentences:
        rules.add_pipe("sentencizer")
    return rules


@Tokenizer.register("elmo_spacy")
class SpacyRules(StrictParams, Tokenizer):
    """
    A tokenizer with spaCy's rules for a language, or of an installed model, without tokens of white space.

    # Parameters

    language : spaCy's code; `xx` for the rules that all languages share, as Korean's own rules need MeCab.
    model : the name of an installed model, in place of the language.
    """

    def __init__(self, *, language: Name = "en", model: Optional[Name] = None) -> None:
        self._pipeline = shared_pipeline(language, model)

    @property
    def rules(self) -> "spacy.tokenizer.Tokenizer | None":
        """SpaCy's tokenizer, or `None` for a language that has one of its own."""
        pieces = self._pipeline(0).tokenizer
        return pieces.rules if isinstance(pieces, PiecewiseRules) else None

    def tokenize(self, text: str) -> list[Token]:
        return [Token(token.text, idx=token.idx) for token in self._pipeline.tokens(text)]


class Matches(Tokenizer):
    """A tokenizer whose words are the matches of a pattern."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def tokenize(self, text: str) -> list[Token]:
        return [Token(match.group(), idx=match.start()) for match in self.pattern.finditer(text)]


@Tokenizer.register("elmo_syllables")
class Syllables(StrictParams, Matches):
    """A tokenizer into Hangul syllables, runs of other letters and digits, and other single characters."""

    def __init__(self) -> None:
        super().__init__(_SYLLABLES)


class RenewedPipeline:
    """
    A pipeline of spaCy that is made again before it has read too much, since it keeps each new word
    forever. spaCy's `memory_zone` does not keep them, but forgets the words of the texts before, so that
    short texts take five times as long, and a thread has to wait for the others.
    """

    def __init__(self, make: Callable[[], "Language"]) -> None:
        self._make = make
        self._renew()

    def __call__(self, characters: int) -> "Language":
        """Returns the pipeline for a text of this many characters. Threads may call this at the same time."""
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles how to make the pipeline, since spaCy's functions cannot be pickled."""
        return RenewedPipeline, (self._make,)

    def _renew(self) -> "Language":
        import spacy

        language = self._make()
        if isinstance(language.tokenizer, spacy.tokenizer.Tokenizer):
            language.tokenizer = PiecewiseRules(language.tokenizer)
        self._max_strings = len(language.vocab.strings) + MAX_STRINGS
        self._characters = 0
        self._language = language
        return language


@cache
def shared_pipeline(language: str, model: str | None) -> RenewedPipeline:
    """Returns the pipeline that all tokenizers of a language or model share; one takes 0.1 s to make."""
    return RenewedPipeline(partial(_installed_model, model) if model else partial(language_rules, language))


@cache
def sentence_rules() -> RenewedPipeline:
    """Returns spaCy's rules for English sentences, which all predictors share."""
    return RenewedPipeline(partial(language_rules, "en", sentences=True))


class PiecewiseRules:
    """
    spaCy's rules for a text of any length. Their time grows with the square of a run of characters such as
    `====`, to 30 seconds for 10,000, and block all other threads. So they get the text in pieces,
    which are cut at white space and after `MAX_RUN` characters without any; other threads run between them.
    """

    def __init__(self, rules: "spacy.tokenizer.Tokenizer") -> None:
        self.rules = rules

    def __call__(self, text: str) -> "Doc":
        from spacy.tokens import Doc

        docs = [self.rules(piece) for piece in _pieces(text)]
        if len(docs) == 1:
            return docs[0]
        # `from_docs` returns None without pieces.
        return Doc.from_docs(docs, ensure_whitespace=False) or Doc(self.rules.vocab)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    for run in _RUN.finditer(text):
        end = run.end()
        if end - start >= _PIECE or not text[end - 1].isspace():
            yield text[start:end]
            start = end
    if start < len(text):
        yield text[start:]
