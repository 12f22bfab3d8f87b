"""The sizes of a biLM, as its official `options.json` states them (bilm-tf, AllenNLP)."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Any, Literal, get_type_hints

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
# A field whose metadata has a path is an option: its annotation is the kind of the value at this path in the
# JSON, and without a default it is required.


@dataclass(frozen=True, kw_only=True)
class DictionaryOptions:
    """The sizes of the dictionaries of a token layer that reads Unicode characters."""

    n_characters: _Units = field(metadata={"path": "char_cnn.n_characters"})
    """Rows of the characters' table."""
    n_words: Annotated[int, Range(0, MAX_WORDS)] = field(default=0, metadata={"path": "char_cnn.n_words"})
    """Rows of the words' table."""
    word_dim: Annotated[int, Range(0, MAX_UNITS)] = field(default=0, metadata={"path": "char_cnn.word_dim"})
    """The size of a word's vector in it; 0 for no such table."""


@dataclass(frozen=True, kw_only=True)
class CharacterOptions:
    """The sizes of a token layer that reads characters."""

    filters: tuple[tuple[int, int], ...]
    """(width, count) of each character convolution."""
    dim: _Units = field(metadata={"path": "char_cnn.embedding.dim"})
    """The size of a character's vector."""
    activation: Literal["relu", "tanh"] = field(metadata={"path": "char_cnn.activation"})
    n_highway: Annotated[int, Range(0, MAX_LAYERS)] = field(
        default=0, metadata={"path": "char_cnn.n_highway"}
    )
    max_characters: Annotated[int, Range(MIN_CHARACTERS, CHARACTERS_PER_WORD)] = field(
        default=CHARACTERS_PER_WORD, metadata={"path": "char_cnn.max_characters_per_token"}
    )
    """The characters that are read of a word, with its begin and end mark; ids always have 50."""
    dictionaries: DictionaryOptions | None = None
    """The dictionaries of Unicode characters; `None` for UTF-8 bytes, which need none."""

    @property
    def num_filters(self) -> int:
        return sum(count for _, count in self.filters)


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """The size of a token layer that reads words."""

    n_tokens: _Words = field(metadata={"path": "n_tokens_vocab"})
    """Words in the table, with `<S>`, `</S>` and `<UNK>`."""


@dataclass(frozen=True, kw_only=True)
class BiLmOptions:
    """The sizes of a biLM."""

    tokens: CharacterOptions | WordOptions
    """The token layer; it reads characters if there is a `char_cnn`, as in bilm-tf."""
    dim: _Units = field(metadata={"path": "lstm.dim"})
    """Cells of an LSTM layer, for each direction."""
    projection_dim: _Units = field(metadata={"path": "lstm.projection_dim"})
    """The size of an LSTM layer's output, for each direction."""
    n_layers: Annotated[int, Range(1, MAX_LAYERS)] = field(metadata={"path": "lstm.n_layers"})
    cell_clip: _Clip = field(default=0.0, metadata={"path": "lstm.cell_clip"})
    """The bound of a cell's value; 0 for none."""
    proj_clip: _Clip = field(default=0.0, metadata={"path": "lstm.proj_clip"})
    """The bound of a projected output's value; 0 for none."""
    use_skip_connections: bool = field(default=False, metadata={"path": "lstm.use_skip_connections"})
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
        if isinstance(source, dict):
            return cls.from_json(source, where="the options given")
        return cls.from_json(read_json_object(source), where=str(source))

    @classmethod
    def from_json(cls, content: dict[str, Any], *, where: str) -> "BiLmOptions":
        """
        Reads the content of an `options.json`; other keys, such as the settings of the training, are ignored.
        """
        tokens: CharacterOptions | WordOptions
        if content.get("char_cnn") is not None:
            # bilm-tf writes n_tokens_vocab here, too: the words of its softmax.
            tokens = _character_options(content, where)
        elif content.get("n_tokens_vocab") is not None:
            tokens = WordOptions(**_read(WordOptions, content, where))
        else:
            raise ElmoError(
                "the options have neither char_cnn, of a biLM that reads characters, nor n_tokens_vocab, of "
                "one that reads words",
                where=where,
            )
        options = _read(cls, content, where)
        clips = {name: float(options[name]) for name in ("cell_clip", "proj_clip")}
        return cls(tokens=tokens, **options | clips)

    def to_json(self) -> dict[str, Any]:
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


def _character_options(content: dict[str, Any], where: str) -> CharacterOptions:
    dictionaries, count = None, _value(content, "char_cnn.n_characters")
    if _value(content, "char_cnn.encoding") == UNICODE:
        dictionaries = DictionaryOptions(**_read(DictionaryOptions, content, where))
    elif count != NUM_CHARACTERS:
        raise ElmoError(
            f"char_cnn.n_characters is {count}; a trained model needs {NUM_CHARACTERS}, although bilm-tf "
            "trains with 261",
            where=where,
        )
    options = _read(CharacterOptions, content, where)
    width: Any = Annotated[int, Range(1, options["max_characters"])]
    filters = _value(content, path := "char_cnn.filters")
    _check(filters, Annotated[list[tuple[width, _Units]], NotEmpty()], path, where)
    pairs = tuple((width, count) for width, count in filters)
    return CharacterOptions(filters=pairs, dictionaries=dictionaries, **options)


def _value(content: Any, path: str) -> Any:
    for key in path.split("."):
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _read(options: type[Any], content: dict[str, Any], where: str) -> dict[str, Any]:
    kinds, values = get_type_hints(options, include_extras=True), {}
    for option in fields(options):
        if (path := option.metadata.get("path")) is not None:
            value = _value(content, path)
            value = option.default if value is None and option.default is not MISSING else value
            _check(value, kinds[option.name], path, where)
            values[option.name] = value
    return values


def _check(value: Any, kind: Any, path: str, where: str) -> None:
    try:
        check_value(value, kind, path)
    except ElmoError as error:
        raise ElmoError(f"{error.key}: {error.what}", where=where, remedy=error.remedy) from None
