"""
The official layout of a biLM: `options.json` and an HDF5 file of weights, as bilm-tf writes them and
AllenNLP reads them.

| dataset | shape |
| --- | --- |
| `char_embed` | (261, char dim): one row an id of `characters.py` but 0 |
| `CNN/W_cnn_{i}`, `CNN/b_cnn_{i}` | (1, width, char dim, filters), (filters) |
| `CNN_high_{i}/W_carry`, `W_transform` | (all filters, all filters) |
| `CNN_high_{i}/b_carry`, `b_transform` | (all filters) |
| `CNN_proj/W_proj`, `b_proj` | (all filters, projection), (projection) |
| `RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/W_0`, `B` | (2 projection, 4 dim), (4 dim) |
| `RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/W_P_0` | (dim, projection) |

d = 0 is the forward and 1 the backward direction; `W_0` holds the input rows above the recurrent ones,
its columns are the gates i, j (candidate), f, o; TensorFlow adds 1 to f outside of the bias.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_tasks.elmo.characters import CHARACTERS_PER_WORD, NUM_CHARACTERS

Source = str | PathLike
_FORGET_BIAS = 1.0


@dataclass(frozen=True, kw_only=True)
class BiLmOptions:
    """The sizes of a biLM, as its `options.json` states them."""

    filters: tuple[tuple[int, int], ...]
    """(width, number) of each character convolution."""
    character_dim: int
    activation: str
    """`relu` or `tanh`, after the character convolution."""
    n_highway: int
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
    def num_filters(self) -> int:
        return sum(number for _, number in self.filters)

    @property
    def output_dim(self) -> int:
        """Both directions side by side: the size of an ELMo vector."""
        return 2 * self.projection_dim

    @classmethod
    def read(cls, source: Source | dict[str, Any]) -> "BiLmOptions":
        """
        From a path, a URL, an `hf://` name, or the options themselves.

        # Raises
        `ConfigurationError`, with the file, the key, what was found and what was expected.
        """
        if isinstance(source, dict):
            return cls._parse(source, "the options given")
        text = _local(source).read_text(encoding="utf-8")
        try:
            return cls._parse(json.loads(text), str(source))
        except json.JSONDecodeError as error:
            raise ConfigurationError(f"{source}, line {error.lineno}: not JSON: {error}") from error

    @classmethod
    def _parse(cls, options: dict[str, Any], where: str) -> "BiLmOptions":
        def get(path: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
            value: Any = options
            for key in path.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            value = default if value is None else value
            if not isinstance(value, kind):
                names = kind.__name__ if isinstance(kind, type) else "number"
                raise ConfigurationError(f"{where}: {path} is {value!r}, expected: {names}")
            return value

        expected_characters = (
            f"{where}: char_cnn.n_characters is %s, expected {NUM_CHARACTERS}"
            " (261 is what bilm-tf trains with; a trained model is read with 262)"
        )
        if (found := get("char_cnn.n_characters", int)) != NUM_CHARACTERS:
            raise ConfigurationError(expected_characters % found)
        length = get("char_cnn.max_characters_per_token", int, CHARACTERS_PER_WORD)
        if length != CHARACTERS_PER_WORD:
            raise ConfigurationError(
                f"{where}: char_cnn.max_characters_per_token is {length}, expected {CHARACTERS_PER_WORD}"
            )
        if (activation := get("char_cnn.activation", str)) not in ("relu", "tanh"):
            raise ConfigurationError(
                f"{where}: char_cnn.activation is {activation!r}, expected 'relu' or 'tanh'"
            )
        filters = get("char_cnn.filters", list)
        if not filters or not all(
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and all(isinstance(size, int) and size > 0 for size in pair)
            and pair[0] <= CHARACTERS_PER_WORD
            for pair in filters
        ):
            raise ConfigurationError(
                f"{where}: char_cnn.filters is {filters!r}, "
                f"expected pairs [width up to {CHARACTERS_PER_WORD}, number of filters]"
            )
        parsed = cls(
            filters=tuple((width, number) for width, number in filters),
            character_dim=get("char_cnn.embedding.dim", int),
            activation=activation,
            n_highway=get("char_cnn.n_highway", int, 0),
            dim=get("lstm.dim", int),
            projection_dim=get("lstm.projection_dim", int),
            n_layers=get("lstm.n_layers", int),
            cell_clip=float(get("lstm.cell_clip", (int, float), 0.0)),
            proj_clip=float(get("lstm.proj_clip", (int, float), 0.0)),
            use_skip_connections=get("lstm.use_skip_connections", bool, False),
        )
        for name in ("character_dim", "dim", "projection_dim", "n_layers"):
            if getattr(parsed, name) < 1:
                raise ConfigurationError(
                    f"{where}: {name} is {getattr(parsed, name)}, expected a positive number"
                )
        return parsed

    def to_json(self) -> dict[str, Any]:
        """In the layout of `options.json`."""
        return {
            "lstm": {
                "cell_clip": self.cell_clip,
                "proj_clip": self.proj_clip,
                "use_skip_connections": self.use_skip_connections,
                "n_layers": self.n_layers,
                "dim": self.dim,
                "projection_dim": self.projection_dim,
            },
            "char_cnn": {
                "embedding": {"dim": self.character_dim},
                "filters": [list(pair) for pair in self.filters],
                "n_highway": self.n_highway,
                "n_characters": NUM_CHARACTERS,
                "max_characters_per_token": CHARACTERS_PER_WORD,
                "activation": self.activation,
            },
        }


def read_weights(source: Source, options: BiLmOptions) -> Iterator[tuple[str, torch.Tensor]]:
    """
    The weights of an official HDF5 file, one at a time, under their names in a `BiLm(options)`.

    # Raises
    `ConfigurationError`, with the file, the dataset, and found and expected shape: not HDF5, truncated,
    a dataset missing or too many, or of a shape that the options do not have.
    """
    path = _local(source)
    try:
        with h5py.File(path, "r") as file:
            _refuse_surplus(file, {dataset for _, dataset, _ in _layout(options)}, source)
            for name, dataset, shape in _layout(options):
                yield name, _to_torch(name, _read_dataset(file, dataset, shape, source))
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"{source}: not a whole HDF5 file of biLM weights ({error})") from error


def write_weights(
    path: Source, options: BiLmOptions, weights: dict[str, torch.Tensor], *, dtype: str = "float32"
) -> None:
    """Writes what `read_weights` reads; `weights` is the state dict of a `BiLm(options)`."""
    with h5py.File(path, "w") as file:
        for name, dataset, shape in _layout(options):
            array = _to_tensorflow(name, weights[name]).astype(dtype)
            file.create_dataset(dataset, shape=shape, data=array.reshape(shape))


def read_initial_state(source: Source, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Where each sentence starts: the datasets `hidden` and `memory` of an HDF5 file.

    *Shape:* `(layers, 2 directions, projection_dim)` and `(layers, 2 directions, dim)`.

    # Raises
    `ConfigurationError`, with the file, the dataset, and found and expected shape.
    """
    sizes = {"hidden": options.projection_dim, "memory": options.dim}
    path = _local(source)
    try:
        with h5py.File(path, "r") as file:
            hidden, memory = (
                torch.from_numpy(_read_dataset(file, name, (options.n_layers, 2, size), source))
                for name, size in sizes.items()
            )
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"{source}: not an HDF5 file of an LSTM state ({error})") from error
    return hidden, memory


def write_initial_state(
    path: Source, hidden: torch.Tensor, memory: torch.Tensor, *, attributes: dict[str, str | int]
) -> None:
    """Writes what `read_initial_state` reads, as float32; `attributes` of the file say where it is from."""
    with h5py.File(path, "w") as file:
        for name, part in (("hidden", hidden), ("memory", memory)):
            file.create_dataset(name, data=part.detach().cpu().float().numpy())
        file.attrs.update(attributes)


def _local(source: Source) -> Path:
    return Path(cached_path(source))


def _layout(options: BiLmOptions) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(parameter of `BiLm`, official dataset, its shape there), for every weight of the biLM."""
    encoder, filters, size = "character_encoder", options.num_filters, options.projection_dim
    yield f"{encoder}.embedding", "char_embed", (NUM_CHARACTERS - 1, options.character_dim)
    for i, (width, number) in enumerate(options.filters):
        kernel = (1, width, options.character_dim, number)
        yield f"{encoder}.convolutions.{i}.weight", f"CNN/W_cnn_{i}", kernel
        yield f"{encoder}.convolutions.{i}.bias", f"CNN/b_cnn_{i}", (number,)
    for i in range(options.n_highway):
        for gate in ("carry", "transform"):
            yield (
                f"{encoder}.highways.{i}.{gate}.weight",
                f"CNN_high_{i}/W_{gate}",
                (filters, filters),
            )
            yield f"{encoder}.highways.{i}.{gate}.bias", f"CNN_high_{i}/b_{gate}", (filters,)
    if filters != size:
        yield f"{encoder}.projection.weight", "CNN_proj/W_proj", (filters, size)
        yield f"{encoder}.projection.bias", "CNN_proj/b_proj", (size,)
    for direction in range(2):
        for layer in range(options.n_layers):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            name = f"lstm.directions.{direction}.{layer}"
            yield f"{name}.weight", f"{cell}/W_0", (2 * size, 4 * options.dim)
            yield f"{name}.bias", f"{cell}/B", (4 * options.dim,)
            if options.dim != size:
                yield f"{name}.projection", f"{cell}/W_P_0", (options.dim, size)


def _read_dataset(file: h5py.File, dataset: str, shape: tuple[int, ...], source: Source) -> np.ndarray:
    found = file.get(dataset)
    if not isinstance(found, h5py.Dataset):
        raise ConfigurationError(f"{source}: dataset {dataset} is missing, expected shape {shape}")
    if found.shape != shape:
        hint = ""
        if dataset == "char_embed" and found.shape == (NUM_CHARACTERS, *shape[1:]):
            hint = " (the row of id 0 is not part of the official file)"
        raise ConfigurationError(
            f"{source}: dataset {dataset} has shape {found.shape}, expected {shape} from the options{hint}"
        )
    array = found[...].astype(np.float32)
    if not np.isfinite(array).all():
        raise ConfigurationError(f"{source}: dataset {dataset} holds values that are not finite")
    return array


def _refuse_surplus(file: h5py.File, expected: set[str], source: Source) -> None:
    """Weights that the options have no place for mean that the two files do not belong together."""
    surplus: list[str] = []
    file.visititems(
        lambda name, item: (
            surplus.append(f"{name} {item.shape}")
            if isinstance(item, h5py.Dataset) and _is_weight(name) and name not in expected
            else None
        )
    )
    if surplus:
        raise ConfigurationError(
            f"{source}: dataset {surplus[0]} has no place in a biLM of these options; "
            "do the options and the weights belong together?"
        )


def _is_weight(dataset: str) -> bool:
    """The softmax of the language model may be stored beside the biLM; ELMo does not need it."""
    return dataset.split("/")[0].startswith(("char_embed", "CNN", "RNN"))


def _gates(weights: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Puts the four blocks of rows into another order."""
    return torch.cat([weights.chunk(4)[gate] for gate in order])


def _to_torch(name: str, array: np.ndarray) -> torch.Tensor:
    """An official array as our parameter: rows are outputs, gates in the order i, f, candidate, o."""
    tensor = torch.from_numpy(array)
    if name.endswith(".embedding"):
        return torch.cat([torch.zeros(1, tensor.size(1)), tensor])
    if ".convolutions." in name and name.endswith(".weight"):
        return tensor.squeeze(0).permute(2, 1, 0).contiguous()
    if ".directions." in name and name.endswith((".weight", ".bias")):
        tensor = _gates(tensor.t() if tensor.dim() == 2 else tensor, [0, 2, 1, 3])
        if name.endswith(".bias"):
            tensor.chunk(4)[1].add_(_FORGET_BIAS)
        return tensor.contiguous()
    return tensor.t().contiguous() if tensor.dim() == 2 else tensor


def _to_tensorflow(name: str, tensor: torch.Tensor) -> np.ndarray:
    """The inverse of `_to_torch`."""
    tensor = tensor.detach().cpu().float()
    if name.endswith(".embedding"):
        tensor = tensor[1:]
    elif ".convolutions." in name and name.endswith(".weight"):
        tensor = tensor.permute(2, 1, 0).unsqueeze(0)
    elif ".directions." in name and name.endswith((".weight", ".bias")):
        if name.endswith(".bias"):
            tensor = tensor.clone()
            tensor.chunk(4)[1].sub_(_FORGET_BIAS)
        tensor = _gates(tensor, [0, 2, 1, 3])
        tensor = tensor.t() if tensor.dim() == 2 else tensor
    elif tensor.dim() == 2:
        tensor = tensor.t()
    return tensor.contiguous().numpy()
