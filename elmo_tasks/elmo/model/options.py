"""
The sizes of a biLM, as its `options.json` states them in the official layout of bilm-tf, which AllenNLP reads
too.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_tasks.common import strict_json
from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.elmo.model.characters import CHARACTERS_PER_WORD, NUM_CHARACTERS

MAX_UNITS, MAX_LAYERS, MAX_WORDS = 1 << 20, 100, 1 << 31
"""Bounds of what a file may ask for; 4,096 units and 2 layers are the most that was ever published."""
MIN_CHARACTERS = 3
"""Of a word: a byte between its marks."""
UNICODE = "unicode"
"""The value of `char_cnn.encoding` where a dictionary holds the characters; without it, UTF-8 bytes."""


@dataclass(frozen=True, kw_only=True)
class DictionaryOptions:
    """The sizes of the dictionaries of a token layer that reads Unicode characters."""

    n_characters: int
    """Rows of the characters' table."""
    n_words: int = 0
    """Rows of the words' table beside the character CNN."""
    word_dim: int = 0
    """The size of a word's vector in it; 0 for no such table."""


@dataclass(frozen=True, kw_only=True)
class CharacterOptions:
    """The sizes of a token layer that reads characters."""

    filters: tuple[tuple[int, int], ...]
    """(width, number) of each character convolution."""
    dim: int
    """The size of a character's vector."""
    activation: str
    """`relu` or `tanh`, after the character convolution."""
    n_highway: int
    max_characters: int = CHARACTERS_PER_WORD
    """What is read of a word, its begin and end mark among them; ids always have 50."""
    dictionaries: DictionaryOptions | None = None
    """Of Unicode characters; `None` for UTF-8 bytes, which need none."""

    @property
    def num_filters(self) -> int:
        return sum(number for _, number in self.filters)


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """The size of a token layer that reads words."""

    n_tokens: int
    """Words in the table, `<S>`, `</S>` and `<UNK>` among them."""


@dataclass(frozen=True, kw_only=True)
class BiLmOptions:
    """The sizes of a biLM, as its `options.json` states them."""

    tokens: CharacterOptions | WordOptions
    """What the token layer reads; characters where there is a `char_cnn`, as in bilm-tf."""
    dim: int
    """Cells of an LSTM layer, for each direction."""
    projection_dim: int
    """Size of an LSTM layer's output, for each direction."""
    n_layers: int
    cell_clip: float
    """Bound of a cell's value; 0 for none."""
    proj_clip: float
    """Bound of a projected output's value; 0 for none."""
    use_skip_connections: bool
    """Add the input of each LSTM layer but the first to its output."""

    @property
    def reads_characters(self) -> bool:
        return isinstance(self.tokens, CharacterOptions)

    @property
    def output_dim(self) -> int:
        """Both directions side by side: the size of an ELMo vector."""
        return 2 * self.projection_dim

    @classmethod
    def read(cls, source: FilePath | dict[str, Any]) -> "BiLmOptions":
        """
        Reads a file, or takes the options themselves.

        # Raises
        `ElmoError`, with the file, the key, what was found and what was expected.
        """
        if isinstance(source, dict):
            return cls.from_json(source, where="the options given")
        try:
            content = strict_json.loads(Path(source).read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ElmoError(f"{source}, line {error.lineno}: not JSON: {error}") from error
        except UnicodeDecodeError as error:
            raise ElmoError(
                f"{source}: found the byte at {error.start} to be no UTF-8, expected JSON"
            ) from error
        return cls.from_json(content, where=str(source))

    @classmethod
    def from_json(cls, content: dict[str, Any], *, where: str) -> "BiLmOptions":
        """
        Reads the content of an `options.json`. Other keys, as of the training, are no concern of the biLM.

        # Raises
        `ElmoError`, with `where`, the key, what was found and what was expected.
        """
        values = _Options(content, where)
        tokens: CharacterOptions | WordOptions
        if values.has("char_cnn"):
            # bilm-tf writes n_tokens_vocab here, too: the words of its softmax.
            tokens = _character_options(values)
        elif values.has("n_tokens_vocab"):
            tokens = WordOptions(n_tokens=values.size("n_tokens_vocab", most=MAX_WORDS))
        else:
            raise ElmoError(
                f"{where}: found neither char_cnn nor n_tokens_vocab, expected char_cnn of a biLM that reads "
                "characters, or n_tokens_vocab of one that reads words"
            )
        return cls(
            tokens=tokens,
            dim=values.size("lstm.dim"),
            projection_dim=values.size("lstm.projection_dim"),
            n_layers=values.size("lstm.n_layers", most=MAX_LAYERS),
            cell_clip=values.bound("lstm.cell_clip"),
            proj_clip=values.bound("lstm.proj_clip"),
            use_skip_connections=values.get("lstm.use_skip_connections", bool, False),
        )

    def to_json(self) -> dict[str, Any]:
        """The options in the layout of `options.json`."""
        tokens = self.tokens
        return {
            "lstm": {
                "cell_clip": self.cell_clip,
                "proj_clip": self.proj_clip,
                "use_skip_connections": self.use_skip_connections,
                "n_layers": self.n_layers,
                "dim": self.dim,
                "projection_dim": self.projection_dim,
            },
        } | (
            {
                "char_cnn": {
                    "embedding": {"dim": tokens.dim},
                    "filters": [list(pair) for pair in tokens.filters],
                    "n_highway": tokens.n_highway,
                    "n_characters": NUM_CHARACTERS,
                    "max_characters_per_token": tokens.max_characters,
                    "activation": tokens.activation,
                }
                | ({} if tokens.dictionaries is None else {"encoding": UNICODE, **vars(tokens.dictionaries)})
            }
            if isinstance(tokens, CharacterOptions)
            else {"n_tokens_vocab": tokens.n_tokens}
        )


class _Options:
    """The values of an `options.json` by their paths; what is wrong with one is an error that names it."""

    def __init__(self, content: object, where: str) -> None:
        self._content, self.where = content, where

    def has(self, path: str) -> bool:
        return self._value(path) is not None

    def get(self, path: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        value = self._value(path)
        value = default if value is None else value
        # To Python, true and false are numbers.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = kind.__name__ if isinstance(kind, type) else "number"
            raise self.wrong(path, value, f": {names}")
        return value

    def size(self, path: str, *, least: int = 1, most: int = MAX_UNITS, default: int | None = None) -> int:
        if not least <= (size := self.get(path, int, default)) <= most:
            kind = "a positive number" if least else "a number from 0"
            raise self.wrong(path, size, f" {kind}, at most {most:,}")
        return size

    def bound(self, path: str) -> float:
        if not 0 <= (bound := self.get(path, (int, float), 0.0)) <= MAX_UNITS:
            raise self.wrong(path, bound, f" a number from 0, for none, to {MAX_UNITS:,}")
        return float(bound)

    def wrong(self, path: str, value: object, expected: str) -> ElmoError:
        text = repr(value)
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        return ElmoError(f"{self.where}: {path} is {shown}, expected{expected}")

    def _value(self, path: str) -> Any:
        value = self._content
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value


def _character_options(values: _Options) -> CharacterOptions:
    number = values.get("char_cnn.n_characters", int)
    dictionaries = None
    if values.get("char_cnn.encoding", str, "utf-8") == UNICODE:
        dictionaries = DictionaryOptions(
            n_characters=values.size("char_cnn.n_characters"),
            n_words=values.size("char_cnn.n_words", least=0, most=MAX_WORDS, default=0),
            word_dim=values.size("char_cnn.word_dim", least=0, default=0),
        )
    elif number != NUM_CHARACTERS:
        raise values.wrong(
            "char_cnn.n_characters",
            number,
            f" {NUM_CHARACTERS} (261 is what bilm-tf trains with; a trained model is read with 262)",
        )
    length = values.get("char_cnn.max_characters_per_token", int, CHARACTERS_PER_WORD)
    if not MIN_CHARACTERS <= length <= CHARACTERS_PER_WORD:
        expected = f" a number from {MIN_CHARACTERS} to {CHARACTERS_PER_WORD}"
        raise values.wrong("char_cnn.max_characters_per_token", length, expected)
    activation = values.get("char_cnn.activation", str)
    if activation not in ("relu", "tanh"):
        raise values.wrong("char_cnn.activation", activation, " 'relu' or 'tanh'")
    filters = values.get("char_cnn.filters", list)
    if not 0 < len(filters) <= MAX_LAYERS or not all(
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(type(size) is int and 0 < size <= MAX_UNITS for size in pair)
        and pair[0] <= length
        for pair in filters
    ):
        raise values.wrong("char_cnn.filters", filters, f" pairs [width up to {length}, number of filters]")
    return CharacterOptions(
        filters=tuple((width, number) for width, number in filters),
        dim=values.size("char_cnn.embedding.dim"),
        activation=activation,
        n_highway=values.size("char_cnn.n_highway", least=0, most=MAX_LAYERS, default=0),
        max_characters=length,
        dictionaries=dictionaries,
    )
