"""The sizes of a biLM, as its official `options.json` states them (bilm-tf, AllenNLP)."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.files import read_json_object
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
_Section = dict[str, tuple[Any, Any]]
"""Options by their paths: the kinds of their values, and their defaults, `None` where one is required."""
_LSTM: _Section = {
    "lstm.dim": (_Units, None),
    "lstm.projection_dim": (_Units, None),
    "lstm.n_layers": (Annotated[int, Range(1, MAX_LAYERS)], None),
    "lstm.cell_clip": (_Clip, 0.0),
    "lstm.proj_clip": (_Clip, 0.0),
    "lstm.use_skip_connections": (bool, False),
}
_CHARACTERS: _Section = {
    "char_cnn.n_characters": (int, None),
    "char_cnn.encoding": (str, "utf-8"),
    "char_cnn.max_characters_per_token": (
        Annotated[int, Range(MIN_CHARACTERS, CHARACTERS_PER_WORD)],
        CHARACTERS_PER_WORD,
    ),
    "char_cnn.embedding.dim": (_Units, None),
    "char_cnn.activation": (Literal["relu", "tanh"], None),
    "char_cnn.n_highway": (Annotated[int, Range(0, MAX_LAYERS)], 0),
}
_DICTIONARIES: _Section = {
    "char_cnn.n_characters": (_Units, None),
    "char_cnn.n_words": (Annotated[int, Range(0, MAX_WORDS)], 0),
    "char_cnn.word_dim": (Annotated[int, Range(0, MAX_UNITS)], 0),
}
_TABLE: _Section = {"n_tokens_vocab": (_Words, None)}


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
        """Reads a file, or takes the options themselves; for errors see `from_json`."""
        if isinstance(source, dict):
            return cls.from_json(source, where="the options given")
        return cls.from_json(read_json_object(source), where=str(source))

    @classmethod
    def from_json(cls, content: dict[str, Any], *, where: str) -> "BiLmOptions":
        """
        Reads the content of an `options.json`. Other keys, such as the settings of the training, are ignored.

        # Raises
        `ElmoError`, with `where` and the key: a wrong or missing value.
        """
        section = dict(_LSTM)
        if content.get("char_cnn") is not None:
            # bilm-tf writes n_tokens_vocab here, too: the words of its softmax.
            section |= {"char_cnn": (dict, None), **_CHARACTERS}
            section |= _DICTIONARIES if _value(content, "char_cnn.encoding", None) == UNICODE else {}
        elif content.get("n_tokens_vocab") is not None:
            section |= _TABLE
        else:
            raise ElmoError(
                "the options have neither char_cnn, of a biLM that reads characters, nor n_tokens_vocab, of "
                "one that reads words",
                where=where,
            )
        options = _read(content, section, where)
        tokens: CharacterOptions | WordOptions
        if "char_cnn" in options:
            tokens = _character_options(content, options, where)
        else:
            tokens = WordOptions(n_tokens=options["n_tokens_vocab"])
        return cls(
            tokens=tokens,
            dim=options["lstm.dim"],
            projection_dim=options["lstm.projection_dim"],
            n_layers=options["lstm.n_layers"],
            cell_clip=float(options["lstm.cell_clip"]),
            proj_clip=float(options["lstm.proj_clip"]),
            use_skip_connections=options["lstm.use_skip_connections"],
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


def _character_options(content: dict[str, Any], options: dict[str, Any], where: str) -> CharacterOptions:
    dictionaries = None
    if options["char_cnn.encoding"] == UNICODE:
        dictionaries = DictionaryOptions(
            n_characters=options["char_cnn.n_characters"],
            n_words=options["char_cnn.n_words"],
            word_dim=options["char_cnn.word_dim"],
        )
    elif options["char_cnn.n_characters"] != NUM_CHARACTERS:
        raise ElmoError(
            f"char_cnn.n_characters is {options['char_cnn.n_characters']}; a trained model needs "
            f"{NUM_CHARACTERS}, although bilm-tf trains with 261",
            where=where,
        )
    length = options["char_cnn.max_characters_per_token"]
    width: Any = Annotated[int, Range(1, length)]
    kind = Annotated[list[tuple[width, _Units]], NotEmpty()]
    (filters,) = _read(content, {"char_cnn.filters": (kind, None)}, where).values()
    return CharacterOptions(
        filters=tuple((width, count) for width, count in filters),
        dim=options["char_cnn.embedding.dim"],
        activation=options["char_cnn.activation"],
        n_highway=options["char_cnn.n_highway"],
        max_characters=length,
        dictionaries=dictionaries,
    )


def _value(content: Any, path: str, default: Any) -> Any:
    for key in path.split("."):
        content = content.get(key) if isinstance(content, dict) else None
    return default if content is None else content


def _read(content: dict[str, Any], section: _Section, where: str) -> dict[str, Any]:
    """Returns the options of a section by their paths; a wrong or missing value is an `ElmoError`."""
    options = {path: _value(content, path, default) for path, (_, default) in section.items()}
    try:
        for path, (kind, _) in section.items():
            check_value(options[path], kind, path)
    except ElmoError as error:
        raise ElmoError(f"{error.key}: {error.what}", where=where, remedy=error.remedy) from None
    return options
