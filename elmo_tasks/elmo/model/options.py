"""The sizes of a biLM, as its official `options.json` states them (bilm-tf, AllenNLP)."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from elmo_tasks.common import strict_json
from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.values import NotEmpty, Range, check_value
from elmo_tasks.elmo.model.characters import CHARACTERS_PER_WORD, NUM_CHARACTERS

MAX_UNITS, MAX_LAYERS, MAX_WORDS = 1 << 20, 100, 1 << 31
"""Bounds for untrusted files; the largest published biLMs have 4,096 units and 2 layers."""
MIN_CHARACTERS = 3
"""The shortest word: a byte between its marks."""
UNICODE = "unicode"
"""The value of `char_cnn.encoding` for a dictionary of characters; by default they are UTF-8 bytes."""
_Units = Annotated[int, Range(1, MAX_UNITS)]
_Words = Annotated[int, Range(1, MAX_WORDS)]
_Clip = Annotated[float, Range(0, MAX_UNITS)]


@dataclass(frozen=True, kw_only=True)
class DictionaryOptions:
    """The sizes of the dictionaries of a token layer that reads Unicode characters."""

    n_characters: int
    """Rows of the characters' table."""
    n_words: int = 0
    """Rows of the words' table."""
    word_dim: int = 0
    """The size of a word's vector in it; 0 for no such table."""


@dataclass(frozen=True, kw_only=True)
class CharacterOptions:
    """The sizes of a token layer that reads characters."""

    filters: tuple[tuple[int, int], ...]
    """(width, count) of each character convolution."""
    dim: int
    """The size of a character's vector."""
    activation: str
    """`relu` or `tanh`, after the character convolution."""
    n_highway: int
    max_characters: int = CHARACTERS_PER_WORD
    """The characters that are read of a word, with its begin and end mark; ids always have 50."""
    dictionaries: DictionaryOptions | None = None
    """The dictionaries of Unicode characters; `None` for UTF-8 bytes, which need none."""

    @property
    def num_filters(self) -> int:
        return sum(count for _, count in self.filters)


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """The size of a token layer that reads words."""

    n_tokens: int
    """Words in the table, with `<S>`, `</S>` and `<UNK>`."""


@dataclass(frozen=True, kw_only=True)
class BiLmOptions:
    """The sizes of a biLM."""

    tokens: CharacterOptions | WordOptions
    """The token layer; it reads characters if there is a `char_cnn`, as in bilm-tf."""
    dim: int
    """Cells of an LSTM layer, for each direction."""
    projection_dim: int
    """The size of an LSTM layer's output, for each direction."""
    n_layers: int
    cell_clip: float
    """The bound of a cell's value; 0 for none."""
    proj_clip: float
    """The bound of a projected output's value; 0 for none."""
    use_skip_connections: bool
    """Add the input of each LSTM layer but the first to its output."""

    @property
    def reads_characters(self) -> bool:
        return isinstance(self.tokens, CharacterOptions)

    @property
    def output_dim(self) -> int:
        """The size of an ELMo vector: both directions side by side."""
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
        return cls.from_json(strict_json.read_object(source), where=str(source))

    @classmethod
    def from_json(cls, content: dict[str, Any], *, where: str) -> "BiLmOptions":
        """
        Reads the content of an `options.json`. Other keys, such as the settings of the training, are ignored.

        # Raises
        `ElmoError`, with `where` and the key: a wrong or missing value.
        """
        options = _Options(content, where)
        tokens: CharacterOptions | WordOptions
        if options.has("char_cnn"):
            # bilm-tf writes n_tokens_vocab here, too: the words of its softmax.
            tokens = _character_options(options)
        elif options.has("n_tokens_vocab"):
            tokens = WordOptions(n_tokens=options.get("n_tokens_vocab", _Words))
        else:
            raise ElmoError(
                "the options have neither char_cnn, of a biLM that reads characters, nor n_tokens_vocab, of "
                "one that reads words",
                where=where,
            )
        return cls(
            tokens=tokens,
            dim=options.get("lstm.dim", _Units),
            projection_dim=options.get("lstm.projection_dim", _Units),
            n_layers=options.get("lstm.n_layers", Annotated[int, Range(1, MAX_LAYERS)]),
            cell_clip=float(options.get("lstm.cell_clip", _Clip, 0.0)),
            proj_clip=float(options.get("lstm.proj_clip", _Clip, 0.0)),
            use_skip_connections=options.get("lstm.use_skip_connections", bool, False),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the options in the layout of `options.json`."""
        tokens = self.tokens
        lstm = {
            "cell_clip": self.cell_clip,
            "proj_clip": self.proj_clip,
            "use_skip_connections": self.use_skip_connections,
            "n_layers": self.n_layers,
            "dim": self.dim,
            "projection_dim": self.projection_dim,
        }
        if not isinstance(tokens, CharacterOptions):
            return {"lstm": lstm, "n_tokens_vocab": tokens.n_tokens}
        char_cnn: dict[str, Any] = {
            "embedding": {"dim": tokens.dim},
            "filters": [list(pair) for pair in tokens.filters],
            "n_highway": tokens.n_highway,
            "n_characters": NUM_CHARACTERS,
            "max_characters_per_token": tokens.max_characters,
            "activation": tokens.activation,
        }
        if tokens.dictionaries is not None:
            char_cnn |= {"encoding": UNICODE, **vars(tokens.dictionaries)}
        return {"lstm": lstm, "char_cnn": char_cnn}


def _character_options(options: "_Options") -> CharacterOptions:
    n_characters = options.get("char_cnn.n_characters", int)
    dictionaries = None
    if options.get("char_cnn.encoding", str, "utf-8") == UNICODE:
        dictionaries = DictionaryOptions(
            n_characters=options.get("char_cnn.n_characters", _Units),
            n_words=options.get("char_cnn.n_words", Annotated[int, Range(0, MAX_WORDS)], 0),
            word_dim=options.get("char_cnn.word_dim", Annotated[int, Range(0, MAX_UNITS)], 0),
        )
    elif n_characters != NUM_CHARACTERS:
        raise ElmoError(
            f"char_cnn.n_characters is {n_characters}; a trained model needs {NUM_CHARACTERS}, although "
            "bilm-tf trains with 261",
            where=options.where,
        )
    length = options.get(
        "char_cnn.max_characters_per_token",
        Annotated[int, Range(MIN_CHARACTERS, CHARACTERS_PER_WORD)],
        CHARACTERS_PER_WORD,
    )
    width: Any = Annotated[int, Range(1, length)]
    filters = options.get("char_cnn.filters", Annotated[list[tuple[width, _Units]], NotEmpty()])
    return CharacterOptions(
        filters=tuple((width, count) for width, count in filters),
        dim=options.get("char_cnn.embedding.dim", _Units),
        activation=options.get("char_cnn.activation", Literal["relu", "tanh"]),
        n_highway=options.get("char_cnn.n_highway", Annotated[int, Range(0, MAX_LAYERS)], 0),
        max_characters=length,
        dictionaries=dictionaries,
    )


class _Options:
    """The values of an `options.json` by their paths, such as `lstm.dim`."""

    def __init__(self, content: object, where: str) -> None:
        self._content, self.where = content, where

    def has(self, path: str) -> bool:
        return self._value(path) is not None

    def get(self, path: str, kind: Any, default: Any = None) -> Any:
        """Returns a value of this kind (`common.values`), or the default if there is none."""
        value = self._value(path)
        value = default if value is None else value
        try:
            check_value(value, kind, path)
        except ElmoError as error:
            raise ElmoError(f"{error.key}: {error.what}", where=self.where, remedy=error.remedy) from None
        return value

    def _value(self, path: str) -> Any:
        value = self._content
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value
