"""Tiny biLMs in the official layout, and batches for them."""

import copy
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_tasks.elmo import BiLm, BiLmOptions, FrozenBiLm, TrainedBiLm, files
from elmo_tasks.elmo.model.characters import CHARACTERS_PER_WORD, character_ids
from elmo_tasks.elmo.model.folders import BiLmFolder
from elmo_tasks.elmo.model.weight_file import read_weights, write_weights

HAS_H5PY = find_spec("h5py") is not None
WEIGHTS = "weights.hdf5" if HAS_H5PY else "weights.safetensors"
"""The name of the weights here."""
needs_h5py = pytest.mark.skipif(not HAS_H5PY, reason="h5py is not installed")

OPTIONS: dict[str, Any] = {
    "lstm": {
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
        "n_layers": 2,
        "dim": 12,
        "projection_dim": 6,
    },
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 6], [5, 8]],
        "n_highway": 2,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
}

VOCABULARY = ["</S>", "the", "cat", ".", "<UNK>", "mat", "on", "The", "<S>", "Łódź", "😀", "and", "until"]
"""The words are neither sorted nor ordered by frequency."""

SENTENCES = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    ["Zoë", "flew", "to", "Łódź", "한국어", "😀", "a" * 60],
    [],
    ["Yes"],
    [
        *("The", "very", "long", "sentence", "goes", "on", "and", "on", ","),
        *("until", "the", "cat", "is", "tired", "of", "the", "mat", "."),
    ],
]

NONEMPTY = [words for words in SENTENCES if words]
"""The sentences that are not empty."""

VARIANTS: list[dict[str, Any]] = [
    {},
    {"activation": "tanh", "n_highway": 1, "use_skip_connections": False},
    {"n_layers": 1, "cell_clip": 0, "proj_clip": 0},
    {"n_layers": 3, "n_highway": 0, "max_characters_per_token": 6},
    # bilm-tf leaves projections out where the sizes agree.
    {"dim": 18, "projection_dim": 18},
]
"""Changes of `OPTIONS` that take each branch of the biLM."""

FILLING = {"dim": 64, "projection_dim": 32, "filters": [[1, 32], [2, 32], [5, 64]]}
"""Sizes that fill a processor's vectors, as the published ones do."""


def changed(**changes: Any) -> dict[str, Any]:
    """Returns `OPTIONS` with some keys of either section replaced; `None` removes a key."""
    options = copy.deepcopy(OPTIONS)
    for key, value in changes.items():
        section = options["lstm" if key in options["lstm"] else "char_cnn"]
        if value is None:
            del section[key]
        else:
            section[key] = value
    return options


def make_files(folder: Path, **changes: Any) -> tuple[Path, Path]:
    """Writes `options.json` and `WEIGHTS`, with weights so large that all bounds are reached."""
    return _make_files(folder, changed(**changes))


def make_block(folder: Path, **changes: Any) -> dict[str, str]:
    """Writes the files of `make_files`, and returns them by their keys in a config."""
    options_file, weight_file = make_files(folder, **changes)
    return {"options_file": str(options_file), "weight_file": str(weight_file)}


def block_of(folder: Path) -> dict[str, str]:
    """Returns the options and weights in a folder by their keys in a config."""
    return {
        "options_file": str(folder / "options.json"),
        "weight_file": str(BiLmFolder(folder).file(*files.WEIGHTS)),
    }


def as_hdf5(source: Path, folder: Path) -> dict[str, str]:
    """Writes the files of a biLM with its weights in HDF5, and returns them by their keys in a config."""
    folder.mkdir()
    options = BiLmOptions.read(shutil.copy(source / "options.json", folder))
    weights = dict(read_weights(block_of(source)["weight_file"], options))
    write_weights(folder / "weights.hdf5", options, weights)
    return block_of(folder)


def make_word_files(folder: Path) -> dict[str, str]:
    """Writes the files of a biLM that reads words, and returns them by their keys in a config."""
    options = {"lstm": OPTIONS["lstm"], "n_tokens_vocab": len(VOCABULARY)}
    options_file, weight_file = _make_files(folder, options)
    vocabulary_file = folder / "vocabulary.txt"
    vocabulary_file.write_text("".join(f"{word}\n" for word in VOCABULARY), encoding="utf-8")
    return {
        "options_file": str(options_file),
        "weight_file": str(weight_file),
        "vocabulary_file": str(vocabulary_file),
    }


def read_bilm(
    options_file: Path | str, weight_file: Path | str, vocabulary_file: Path | str | None = None
) -> BiLm:
    """Reads the model in plain PyTorch."""
    bilm = BiLm(options=BiLmOptions.read(options_file))
    bilm.load_weights(weight_file)
    if vocabulary_file is not None:
        words = Path(vocabulary_file).read_text(encoding="utf-8").splitlines()
        bilm.token_encoder.set_vocabulary(words)
    return bilm


def read_frozen(
    options_file: Path | str, weight_file: Path | str, vocabulary_file: Path | str | None = None
) -> FrozenBiLm:
    return frozen(read_bilm(options_file, weight_file, vocabulary_file))


def random_bilm(seed: int = 1, **changes: Any) -> BiLm:
    """Returns a biLM of `OPTIONS` with some keys replaced, and random weights."""
    torch.manual_seed(seed)
    return BiLm(options=BiLmOptions.read(changed(**changes)))


def frozen(bilm: BiLm, precision: str = "float32") -> FrozenBiLm:
    """Returns a frozen biLM with copies of the weights."""
    weights = {name: weight.detach().clone() for name, weight in bilm.state_dict().items()}
    return FrozenBiLm(options=bilm.options, precision=precision, weights=weights)


def trained(bilm: BiLm) -> TrainedBiLm:
    """Returns a trainable biLM with copies of the weights, in training."""
    copied = TrainedBiLm(options=bilm.options)
    copied.load_state_dict(bilm.state_dict())
    return copied


def _make_files(folder: Path, options: dict[str, Any]) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    options_file, weight_file = folder / "options.json", folder / WEIGHTS
    options_file.write_text(json.dumps(options))
    torch.manual_seed(5)
    bilm = BiLm(options=BiLmOptions.read(options_file))
    with torch.no_grad():
        for parameter in bilm.lstm.parameters():
            parameter.mul_(3.0).add_(0.5 * torch.randn_like(parameter))
    write_weights(weight_file, bilm.options, bilm.state_dict())
    return options_file, weight_file


def batch(sentences: list[list[str]]) -> torch.Tensor:
    """Returns character ids `(sentences, longest, 50)`."""
    ids = torch.zeros(len(sentences), max(map(len, sentences)), CHARACTERS_PER_WORD, dtype=torch.int16)
    for row, words in zip(ids, sentences, strict=True):
        row[: len(words)] = torch.from_numpy(character_ids(words).copy())
    return ids
