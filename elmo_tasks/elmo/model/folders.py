"""
A folder or zip that holds all files of a biLM, and the files of ELMoForManyLangs (Che et al. 2018,
arXiv:1807.03121; https://github.com/HIT-SCIR/ELMoForManyLangs).

| file | content |
| --- | --- |
| `config.json` | `config_path`: the path of the file of sizes, which may also be in this folder |
| the file of sizes | `encoder` and `token_embedder` |
| `char.dic`, `word.dic` | an entry a line, a tab, and its row in the table |
| `token_embedder.pkl`, `encoder.pkl` | state dicts of PyTorch |

The `encoder` is `elmo`, and `cnn` reads characters; a biLM of another kind lacks weights of these. Without
characters the biLM reads words. Words of more than 48 characters are looked up whole; the original cuts them
if its `token_embedder` is called `cnn`.
"""

import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch

from elmo_tasks.common.errors import ElmoError, FilePath, errors_as
from elmo_tasks.common.files import MAX_JSON, read_json_object, read_utf8
from elmo_tasks.elmo.model.array_file import MAX_WEIGHT
from elmo_tasks.elmo.model.characters import (
    BEGIN_SENTENCE,
    BEGIN_TEXT,
    END_SENTENCE,
    END_TEXT,
    SPECIAL_IDS,
    UNKNOWN,
)
from elmo_tasks.elmo.model.encoders import (
    OUT_OF_VOCABULARY,
    Dictionary,
    character_lookup,
    vocabulary_rows,
    word_lookup,
)
from elmo_tasks.elmo.model.options import UNICODE, BiLmOptions, CharacterOptions
from elmo_tasks.elmo.model.weight_file import FLOATS

MAX_UNPACKED_BYTES = 1 << 34
"""The largest file of a zip; the files of the largest published biLM take a thirtieth of it."""
MAX_TEXT = 1 << 26
"""The largest file of text; the largest dictionaries of ELMoForManyLangs have some MB."""
_ZIP_MAGIC = b"PK\3\4"
# zipfile raises errors of many kinds for a damaged file
_zip_errors = partial(errors_as, ElmoError, "the zip cannot be unpacked")


@contextmanager
def opened_folder(path: FilePath) -> Iterator["BiLmFolder | None"]:
    """Opens a folder or zip; gives `None` if `path` is neither. A damaged zip is an `ElmoError`."""
    path = Path(path)
    if path.is_dir():
        yield BiLmFolder(path)
    elif path.is_file() and _first_bytes(path) == _ZIP_MAGIC:
        with TemporaryDirectory() as scratch:
            with _zip_errors(where=path):
                folder = BiLmFolder(path, Path(scratch))
            try:
                yield folder
            except ElmoError as error:
                error.where = folder.renamed(error.where)
                raise
    else:
        yield None


def _first_bytes(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(_ZIP_MAGIC))


class BiLmFolder:
    """
    The files of a folder or zip, by their names.

    A file of a zip is unpacked to `scratch` when it is first used. It gets a new name, so that no member can
    land elsewhere.
    """

    def __init__(self, path: Path, scratch: Path | None = None) -> None:
        self._path, self._scratch = path, scratch
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._unpacked: dict[str, Path] = {}
        if scratch is not None:
            with zipfile.ZipFile(path) as archive:
                members = [member for member in archive.infolist() if not member.is_dir()]
            self._members = _by_name(members)
            self._unpacked = {
                name: scratch / f"{index:06}" for index, name in enumerate(sorted(self._members))
            }

    def has(self, name: str) -> bool:
        """Tells whether there is a file of this name. For a folder, the name may be any path."""
        return name in self._members if self._scratch is not None else Path(self._path, name).is_file()

    def where(self, name: str) -> str:
        return f"{self._path}{'!' if self._scratch is not None else '/'}{name}"

    def renamed(self, path: str) -> str:
        """Returns the name of an unpacked file by its path (`where`); any other path unchanged."""
        names = [name for name, unpacked in self._unpacked.items() if str(unpacked) == path]
        return self.where(names[0]) if names else path

    def file(self, *names: str, max_bytes: int = MAX_UNPACKED_BYTES) -> Path:
        """Returns the first of these files that exists, unpacked from a zip if it has at most `max_bytes`."""
        name = next(filter(self.has, names), None)
        if name is None:
            raise ElmoError(f"{' or '.join(names)} is missing", where=self._path)
        if self._scratch is None:
            return Path(self._path, name)
        member, target = self._members[name], self._unpacked[name]
        if member.file_size > max_bytes:
            raise ElmoError(
                f"the file has {member.file_size:,} bytes, more than {max_bytes:,}", where=self.where(name)
            )
        if not target.exists():
            with (
                _zip_errors(where=self.where(name)),
                zipfile.ZipFile(self._path) as archive,
                archive.open(member) as packed,
                open(target, "wb") as unpacked,
            ):
                shutil.copyfileobj(packed, unpacked)
        return target

    def text(self, name: str) -> str:
        return read_utf8(self.file(name, max_bytes=MAX_TEXT), max_bytes=MAX_TEXT, where=self.where(name))

    def json(self, name: str) -> dict[str, Any]:
        return read_json_object(self.file(name, max_bytes=MAX_JSON), where=self.where(name))


def _by_name(members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Returns the files by their paths below the folders that all of them are in, if there are any."""
    # macOS adds a folder with its own notes on the files.
    members = [member for member in members if not member.filename.startswith("__MACOSX/")]
    paths = [PurePosixPath(member.filename).parts for member in members]
    while all(len(path) > 1 for path in paths) and len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    return {str(PurePosixPath(*path)): member for path, member in zip(paths, members, strict=True)}


# ELMoForManyLangs

CONFIG, CHARACTERS, WORDS = "config.json", "char.dic", "word.dic"
TOKEN_WEIGHTS, LSTM_WEIGHTS = "token_embedder.pkl", "encoder.pkl"
PADDING = "<pad>"
_WORD_TABLE = "word_emb_layer.embedding.weight"
_PUBLISHED = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
SHIPPED = {f"cnn_{number}_100_512_4096_sample.json": _PUBLISHED for number in (0, 50)}
"""The files of sizes that come with the original package, by their names; both say the same."""
_AS_IN_WORDS = {BEGIN_SENTENCE: BEGIN_TEXT, END_SENTENCE: END_TEXT, UNKNOWN: OUT_OF_VOCABULARY}
"""The special tokens of a biLM that reads words, with their names in ELMoForManyLangs."""


def is_many_langs(folder: BiLmFolder) -> bool:
    return folder.has(TOKEN_WEIGHTS)


def options_in(folder: BiLmFolder) -> BiLmOptions:
    config, where = _config_and_path(folder)
    sections = (config.get(name) for name in ("encoder", "token_embedder"))
    encoder, tokens = (section if isinstance(section, dict) else {} for section in sections)
    if encoder.get("dim") == encoder.get("projection_dim"):
        problem = f"encoder.dim and encoder.projection_dim are both {encoder.get('dim')}; they must differ"
        raise ElmoError(problem, where=where)
    lstm = {key: encoder.get(key) for key in ("n_layers", "dim", "projection_dim", "cell_clip", "proj_clip")}
    options: dict[str, Any] = {"lstm": {**lstm, "use_skip_connections": True}}
    words = _dictionary(folder, WORDS) if tokens.get("word_dim") else {}
    if tokens.get("char_dim"):
        options["char_cnn"] = {
            **{
                key: tokens.get(key)
                for key in ("activation", "filters", "n_highway", "max_characters_per_token")
            },
            "embedding": {"dim": tokens["char_dim"]},
            "encoding": UNICODE,
            "n_characters": _num_rows(_dictionary(folder, CHARACTERS, (*SPECIAL_IDS, OUT_OF_VOCABULARY))),
            "n_words": _num_rows(words),
            "word_dim": tokens.get("word_dim"),
        }
    else:
        options["n_tokens_vocab"] = len(_words_by_row(words))
    return BiLmOptions.from_json(options, where=where)


def weights_in(folder: BiLmFolder, options: BiLmOptions) -> dict[str, torch.Tensor]:
    """Reads the weights and dictionaries of a biLM of these `options`, by their names in a `BiLm`."""
    if options != options_in(folder):
        raise ElmoError("the options belong to another biLM", where=folder.where(CONFIG))
    weights = _State(folder, TOKEN_WEIGHTS)
    read = {f"token_encoder.{name}": part for name, part in _token_weights(folder, weights, options)}
    weights.refuse_surplus()
    weights = _State(folder, LSTM_WEIGHTS)
    read |= {f"lstm.directions.{name}": part for name, part in _lstm_weights(weights, options)}
    weights.refuse_surplus()
    return read


def _token_weights(
    folder: BiLmFolder, weights: "_State", options: BiLmOptions
) -> Iterator[tuple[str, torch.Tensor]]:
    size, tokens = options.projection_dim, options.tokens
    bias = weights.take("projection.bias", size)
    words = _dictionary(folder, WORDS) if weights.has(_WORD_TABLE) else {}
    if not isinstance(tokens, CharacterOptions):
        table = weights.take(_WORD_TABLE, _num_rows(words), None)
        projected = table @ weights.take("projection.weight", size, table.size(1)).t() + bias
        # Marks that the dictionary lacks are unknown words.
        marks = [words.get(mark, words[OUT_OF_VOCABULARY]) for mark in _AS_IN_WORDS.values()]
        yield "embedding", torch.cat([projected, projected[marks]])
        yield from vocabulary_rows(_words_by_row(words), num_rows=tokens.n_tokens).items()
        return
    sizes, filters = tokens.dictionaries, tokens.num_filters
    assert sizes is not None
    yield "embedding", weights.take("char_emb_layer.embedding.weight", sizes.n_characters, tokens.dim)
    characters = _dictionary(folder, CHARACTERS, (*SPECIAL_IDS, OUT_OF_VOCABULARY))
    for name, part in character_lookup(characters, num_rows=sizes.n_characters).items():
        yield f"characters.{name}", part
    if sizes.word_dim:
        yield "words.embedding", weights.take(_WORD_TABLE, sizes.n_words, sizes.word_dim)
        for name, part in word_lookup(words, num_rows=sizes.n_words, length=tokens.max_characters).items():
            yield f"words.lookup.{name}", part
    for i, (width, count) in enumerate(tokens.filters):
        convolution = f"convolutions.{i}"
        yield f"{convolution}.weight", weights.take(f"{convolution}.weight", count, tokens.dim, width)
        yield f"{convolution}.bias", weights.take(f"{convolution}.bias", count)
    for i in range(tokens.n_highway):
        for name, shape in (("weight", (2 * filters, filters)), ("bias", (2 * filters,))):
            transform, gate = weights.take(f"highways._layers.{i}.{name}", *shape).chunk(2)
            yield f"highways.{i}.transform.{name}", transform.clone()
            # Its gate weighs the input, and ours the transformed input: sigmoid(-x) is 1 - sigmoid(x).
            yield f"highways.{i}.carry.{name}", -gate
    yield "projection.weight", weights.take("projection.weight", size, filters + sizes.word_dim)
    yield "projection.bias", bias


def _lstm_weights(weights: "_State", options: BiLmOptions) -> Iterator[tuple[str, torch.Tensor]]:
    size, dim = options.projection_dim, options.dim
    for direction, name in enumerate(("forward", "backward")):
        for layer in range(options.n_layers):
            cell, ours = f"{name}_layer_{layer}", f"{direction}.{layer}"
            inputs = [
                weights.take(f"{cell}.{part}_linearity.weight", 4 * dim, size) for part in ("input", "state")
            ]
            yield f"{ours}.weight", torch.cat(inputs, dim=1)
            yield f"{ours}.bias", weights.take(f"{cell}.state_linearity.bias", 4 * dim)
            yield f"{ours}.projection", weights.take(f"{cell}.state_projection.weight", size, dim)


class _State:
    """A state dict from a file, from which each weight is taken once."""

    def __init__(self, folder: BiLmFolder, name: str) -> None:
        self.where = folder.where(name)
        path = folder.file(name)
        try:
            self._weights = dict(torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # PyTorch raises errors of many kinds for a damaged file
            # The text of an `UnpicklingError` advises to run whatever the file says.
            unsafe = re.search(r"GLOBAL (\S+)", str(error))
            reason = f"it names {unsafe[1]}" if unsafe else type(error).__name__
            raise ElmoError(f"not a state dict of PyTorch alone ({reason})", where=self.where) from error

    def has(self, name: str) -> bool:
        return name in self._weights

    def take(self, name: str, *shape: int | None) -> torch.Tensor:
        """Takes a weight of this shape, as float32; `None` is any size."""
        weight = self._weights.pop(name, None)
        if weight is None:
            problem = f"is missing; its shape is {shape}"
        elif not _is_plain(weight):
            problem = "is not a plain tensor of floating point"
        elif len(weight.shape) != len(shape) or any(
            size not in (None, actual) for size, actual in zip(shape, weight.shape, strict=True)
        ):
            problem = f"has the shape {tuple(weight.shape)} instead of {shape}"
        elif not (weight.float().abs() <= MAX_WEIGHT).all():
            problem = "holds values that are not finite or too large"
        else:
            return weight.float()
        raise ElmoError(f"{name} {problem}", where=self.where)

    def refuse_surplus(self) -> None:
        if self._weights:
            surplus = ", ".join(self._weights)
            raise ElmoError(f"a biLM of this configuration has no place for {surplus}", where=self.where)


def _is_plain(weight: Any) -> bool:
    """Returns whether this is a tensor of floating-point numbers, neither sparse nor expanded."""
    return (
        isinstance(weight, torch.Tensor)
        and weight.layout is torch.strided
        and weight.dtype in FLOATS
        and weight.numel() * weight.element_size() <= weight.untyped_storage().nbytes()
    )


def _config_and_path(folder: BiLmFolder) -> tuple[dict[str, Any], str]:
    path = folder.json(CONFIG).get("config_path")
    name = str(path).replace("\\", "/").rpartition("/")[2]
    for candidate in (str(path), name):
        if path and folder.has(candidate):
            return folder.json(candidate), folder.where(candidate)
    if name in SHIPPED:
        return cast(dict[str, Any], SHIPPED[name]), name
    raise ElmoError(
        f"config_path, {name!r}, is missing; add the file to the folder, or use one of " + ", ".join(SHIPPED),
        where=folder.where(CONFIG),
    )


def _dictionary(
    folder: BiLmFolder, name: str, expected: Iterable[str] = (OUT_OF_VOCABULARY, PADDING)
) -> dict[str, int]:
    """Reads the row of each entry. As in the original, blanks around it are dropped; U+3000 is a blank."""
    where = folder.where(name)
    lines = folder.text(name).split("\n")
    rows: dict[str, int] = {}
    for line_number, line in enumerate(lines, start=1):
        parts = line.strip().split("\t")
        if not (line_number == len(lines) and parts == [""]):
            # Rows count from 0, and each row has a line.
            if len(parts) > 2 or not re.fullmatch("[0-9]{1,9}", parts[-1]) or int(parts[-1]) >= len(lines):
                raise ElmoError(
                    f"{line[:100]!r} is not an entry, a tab, and its row", where=where, line=line_number
                )
            rows[parts[0] if len(parts) == 2 else "\u3000"] = int(parts[-1])
    if missing := [entry for entry in expected if entry not in rows]:
        raise ElmoError(f"the lines for {', '.join(missing)} are missing", where=where)
    return rows


def _num_rows(dictionary: Dictionary) -> int:
    return max(dictionary.values(), default=-1) + 1


def _words_by_row(dictionary: Dictionary) -> list[str]:
    """Returns a word for each row of the table, and then the special tokens of a `WordEncoder`."""
    words = [f"\0{row}" for row in range(_num_rows(dictionary))]
    for word, row in dictionary.items():
        words[row] = word
    return [*words, *_AS_IN_WORDS]
