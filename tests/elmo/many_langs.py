"""Tiny biLMs in the layout of ELMoForManyLangs, with random weights, and the original that reads them."""

import copy
import json
import logging
import math
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

CONFIGURATION: dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 6,
        "cell_clip": 1,
        "proj_clip": 0.7,
        "dim": 12,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 4], [2, 6], [5, 8]],
        "n_highway": 2,
        "word_dim": 5,
        "char_dim": 4,
        "max_characters_per_token": 50,
    },
    "dropout": 0.1,
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"word_dim": 0, "activation": "tanh", "n_highway": 1},
    {"max_characters_per_token": 9, "n_highway": 0, "n_layers": 3},
    {"char_dim": 0},
    {"char_dim": 0, "name": "lstm", "cell_clip": 0, "proj_clip": 0},
]
"""Changes of the configuration: of the CNN, of what is read, and without characters."""
CHARACTERS = [
    *("<pad>", "t", "h", "e", "<oov>", "<bow>", "<eow>", "a", "c", "\u3000", "한", "국"),
    *"어코😀서울",
]
CHARACTERS += ["<bos>", "<eos>"]
WORDS = ["<oov>", "<pad>", "the", "cat", "<bos>", "<eos>", "한국어", "a" * 7, "a" * 48, "서울", "b" * 60]
SENTENCES = [
    ["the", "cat", "sat", "한국어", "한국", "서울"],
    ["a" * 60, "b" * 60, "a" * 48, "a" * 7, "a" * 9, "😀", "\u3000", "", "the cat"],
    ["the"],
    ["<bos>", "<eos>", "<oov>", "<pad>", "Zoë"],
]
WITHOUT_LONG_WORDS = [[word for word in words if len(word) <= 48] for words in SENTENCES]
"""A table of words is looked up by whole words."""


def configuration(**changes: Any) -> dict[str, Any]:
    changed = copy.deepcopy(CONFIGURATION)
    for key, value in changes.items():
        changed["token_embedder" if key in changed["token_embedder"] or key == "name" else "encoder"][key] = (
            value
        )
    return changed


def make_folder(
    folder: Path, *, words: list[str] = WORDS, characters: list[str] = CHARACTERS, **changes: Any
) -> Path:
    """Writes a biLM whose bounds are so small that they are reached."""
    config = configuration(**changes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"seed": 1, "config_path": "/elsewhere/sizes.json"}))
    (folder / "sizes.json").write_text(json.dumps(config))
    for name, entries in (("word", words), ("char", characters)):
        lines = (f"{entry}\t{row}\n" for row, entry in enumerate(entries))
        (folder / f"{name}.dic").write_text("".join(lines), encoding="utf-8")
    torch.manual_seed(7)
    torch.save(_token_weights(config, len(words), len(characters)), folder / "token_embedder.pkl")
    torch.save(_lstm_weights(config["encoder"]), folder / "encoder.pkl")
    return folder


def make_zip(folder: Path, path: Path, below: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            archive.write(file, f"{below}{file.name}")
    return path


def _token_weights(config: dict[str, Any], words: int, characters: int) -> dict[str, torch.Tensor]:
    sizes, size = config["token_embedder"], config["encoder"]["projection_dim"]
    features, weights = sizes["word_dim"], {}
    if sizes["word_dim"]:
        weights["word_emb_layer.embedding.weight"] = torch.randn(words, sizes["word_dim"])
    if sizes["char_dim"]:
        weights["char_emb_layer.embedding.weight"] = torch.randn(characters, sizes["char_dim"])
        weights |= _cnn_weights(sizes)
        features += _num_filters(sizes)
    return weights | {"projection.weight": _random(size, features), "projection.bias": _random(size)}


def _cnn_weights(sizes: dict[str, Any]) -> dict[str, torch.Tensor]:
    weights = {}
    for i, (width, number) in enumerate(sizes["filters"]):
        weights[f"convolutions.{i}.weight"] = _random(number, sizes["char_dim"], width)
        weights[f"convolutions.{i}.bias"] = _random(number)
    filters = _num_filters(sizes)
    for i in range(sizes["n_highway"]):
        weights[f"highways._layers.{i}.weight"] = _random(2 * filters, filters)
        weights[f"highways._layers.{i}.bias"] = _random(2 * filters)
    return weights


def _num_filters(sizes: dict[str, Any]) -> int:
    return sum(number for _, number in sizes["filters"])


def _lstm_weights(sizes: dict[str, Any]) -> dict[str, torch.Tensor]:
    dim, size = sizes["dim"], sizes["projection_dim"]
    weights = {}
    for layer in range(sizes["n_layers"]):
        for direction in ("forward", "backward"):
            cell = f"{direction}_layer_{layer}"
            for part in ("input", "state"):
                weights[f"{cell}.{part}_linearity.weight"] = _random(4 * dim, size)
            weights[f"{cell}.state_linearity.bias"] = 1 + _random(4 * dim)
            weights[f"{cell}.state_projection.weight"] = 2 * _random(size, dim)
    return weights


def _random(*shape: int) -> torch.Tensor:
    """Returns a matrix whose products have about the size of their inputs."""
    return torch.randn(shape) / max(1, math.prod(shape[1:])) ** 0.5


@contextmanager
def reference(folder: Path, batch_size: int = 8) -> Iterator[Any]:
    """
    Gives the `Embedder` of the package `elmoformanylangs` 0.0.4.post2, see `requirements/peers.txt`.

    It imports the package `overrides` for a mark without effect. Current releases of that refuse what is
    marked, so another mark stands in.
    """
    logging.getLogger("elmoformanylangs").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "overrides", SimpleNamespace(overrides=lambda method: method))
        package = pytest.importorskip("elmoformanylangs")
    yield package.Embedder(str(folder), batch_size=batch_size)
