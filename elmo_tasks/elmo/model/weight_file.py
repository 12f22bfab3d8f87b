"""
HDF5 files of untrusted origin: the weights of a biLM, and the LSTM state that sentences start from.

The official layout of a biLM, as bilm-tf writes it and AllenNLP reads it, with an `options.json`:

| dataset | shape |
| --- | --- |
| `embedding` | (words, projection): one row a line of the vocabulary; for characters, instead: |
| `char_embed` | (261, char dim): one row an id of `characters.py`, without 0 |
| `CNN/W_cnn_{i}`, `CNN/b_cnn_{i}` | (1, width, char dim, filters), (filters) |
| `CNN_high_{i}/W_carry`, `W_transform` | (all filters, all filters) |
| `CNN_high_{i}/b_carry`, `b_transform` | (all filters) |
| `CNN_proj/W_proj`, `b_proj` | (all filters, projection), (projection) |
| `RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/W_0`, `B` | (2 projection, 4 dim), (4 dim) |
| `RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/W_P_0` | (dim, projection) |
| `softmax/W`, `softmax/b` | (words, projection), (words): one row a line of the vocabulary; may be missing |

d = 0 is the forward and 1 the backward direction. `W_0` holds the input rows above the recurrent ones; its
columns are the gates i, j (candidate), f, o. TensorFlow adds 1 to f outside of the bias.

A dataset may have an attribute `blake2b`, a checksum of its name, type, shape and bytes, which
`allennlp elmo export` adds. It is checked if it is there.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from io import FileIO
from typing import Any

import h5py
import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError, FilePath, errors_as
from elmo_tasks.elmo.model.characters import NUM_CHARACTERS
from elmo_tasks.elmo.model.options import BiLmOptions, CharacterOptions

CHARACTER_TABLE, WORD_TABLE = "char_embed", "embedding"
"""The datasets that tell the two kinds of biLM apart."""
SOFTMAX = ("softmax/W", "softmax/b")
"""The language model's output layer, by bilm-tf's names; bilm-tf's own dumps leave it out."""
MAX_WEIGHT = 1_000_000
"""The largest weight of a biLM whose vectors are finite; a flipped bit in an exponent turns 0.1 into 1e37."""
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types of weights in files of PyTorch. It copies whole and complex numbers into floats silently."""
_CHECKSUM = "blake2b"
_FORGET_BIAS = 1.0


def read_weights(source: FilePath, options: BiLmOptions) -> Iterator[tuple[str, torch.Tensor]]:
    """
    Yields the weights of an official HDF5 file one by one, with their names in a `BiLm(options)`. A dataset
    without a place in the options is an `ElmoError`.
    """
    layout = list(_official_layout(options))
    with opened(source, "biLM weights") as file:
        _refuse_surplus(file, {dataset for _, dataset, _ in layout})
        for name, dataset, shape in layout:
            yield name, _to_torch(dataset, read_array(file, dataset, shape))


def softmax_in(source: FilePath, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor] | None:
    """
    Reads the softmax, `None` if there is none. *Shape:* weight `(words, projection_dim)` and bias `(words,)`.
    """
    with opened(source, "biLM weights") as file:
        shapes = [file[dataset].shape for dataset in SOFTMAX if isinstance(file.get(dataset), h5py.Dataset)]
        if not shapes:
            return None
        words = max(shape[0] if shape else 0 for shape in shapes)
        weight = read_array(file, SOFTMAX[0], (words, options.projection_dim))
        bias = read_array(file, SOFTMAX[1], (words,))
    return torch.from_numpy(weight), torch.from_numpy(bias)


def write_weights(
    path: FilePath,
    options: BiLmOptions,
    weights: dict[str, torch.Tensor],
    *,
    dtype: str = "float32",
    softmax: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> None:
    """
    Writes an official HDF5 file, which `read_weights` and `softmax_in` read, of the state dict of a
    `BiLm(options)`. Matrices have the type `dtype`; biases stay float32: AllenNLP adds 1 to them in the
    precision they are stored in. For errors see `write_array`.
    """
    with _written(path, "w") as file:
        for name, dataset, shape in _official_layout(options):
            write_array(file, dataset, _to_tensorflow(dataset, weights[name]).reshape(shape), dtype)
        if softmax is not None:
            for dataset, part in zip(SOFTMAX, softmax, strict=True):
                write_array(file, dataset, part.detach().cpu().float().numpy(), dtype)


def initial_state_in(source: FilePath, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor, str | None]:
    """
    Reads the state of `allennlp elmo calibrate`, and the digest of its biLM, if the file has it. *Shape:*
    `(layers, 2 directions, projection_dim)` and `(layers, 2 directions, dim)`.
    """
    sizes = {"hidden": options.projection_dim, "memory": options.dim}
    with opened(source, "an LSTM state") as file:
        hidden, cell = (
            torch.from_numpy(read_array(file, name, (options.n_layers, 2, size)))
            for name, size in sizes.items()
        )
        digest = file.attrs.get("digest")
    return hidden, cell, digest if isinstance(digest, str) else None


def write_initial_state(
    path: FilePath, hidden: torch.Tensor, cell: torch.Tensor, *, attributes: dict[str, str | int]
) -> None:
    with _written(path, "w") as file:
        for name, part in (("hidden", hidden), ("memory", cell)):
            file.create_dataset(name, data=part.detach().cpu().float().numpy())
        file.attrs.update(attributes)


# The official layout


def _official_layout(options: BiLmOptions) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yields, for every weight of the biLM, its name in `BiLm`, the official dataset, and the shape there."""
    tokens, size = options.tokens, options.projection_dim
    if isinstance(tokens, CharacterOptions):
        if tokens.dictionaries is not None:
            raise ElmoError(
                "the official layout has no place for the dictionaries of a biLM of Unicode characters "
                "(ELMoForManyLangs)"
            )
        yield from _character_layout(tokens, size)
    else:
        yield "token_encoder.embedding", WORD_TABLE, (tokens.n_tokens, size)
    for direction in range(2):
        for layer in range(options.n_layers):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            name = f"lstm.directions.{direction}.{layer}"
            yield f"{name}.weight", f"{cell}/W_0", (2 * size, 4 * options.dim)
            yield f"{name}.bias", f"{cell}/B", (4 * options.dim,)
            if options.dim != size:
                yield f"{name}.projection", f"{cell}/W_P_0", (options.dim, size)


def _character_layout(
    options: CharacterOptions, projection_dim: int
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    encoder, filters = "token_encoder", options.num_filters
    yield f"{encoder}.embedding", CHARACTER_TABLE, (NUM_CHARACTERS - 1, options.dim)
    for i, (width, count) in enumerate(options.filters):
        kernel = (1, width, options.dim, count)
        yield f"{encoder}.convolutions.{i}.weight", f"CNN/W_cnn_{i}", kernel
        yield f"{encoder}.convolutions.{i}.bias", f"CNN/b_cnn_{i}", (count,)
    for i in range(options.n_highway):
        for gate in ("carry", "transform"):
            highway = f"{encoder}.highways.{i}.{gate}"
            yield f"{highway}.weight", f"CNN_high_{i}/W_{gate}", (filters, filters)
            yield f"{highway}.bias", f"CNN_high_{i}/b_{gate}", (filters,)
    if filters != projection_dim:
        yield f"{encoder}.projection.weight", "CNN_proj/W_proj", (filters, projection_dim)
        yield f"{encoder}.projection.bias", "CNN_proj/b_proj", (projection_dim,)


def _refuse_surplus(file: h5py.File, expected: set[str]) -> None:
    for name, dataset in _datasets(file).items():
        # A softmax may be in the same file.
        if name.startswith((CHARACTER_TABLE, WORD_TABLE, "CNN", "RNN")) and name not in expected:
            raise ElmoError(
                f"dataset {name} {dataset.shape} has no place in a biLM of these options",
                where=file.filename,
                remedy="do the options and the weights belong together?",
            )


def _to_torch(dataset: str, array: np.ndarray) -> torch.Tensor:
    """Returns an official array as our parameter: rows are outputs, gates in the order i, f, candidate, o."""
    tensor = torch.from_numpy(array)
    if dataset == WORD_TABLE:
        return tensor
    if dataset == CHARACTER_TABLE:
        return torch.cat([tensor.new_zeros(1, tensor.size(1)), tensor])
    if dataset.startswith("CNN/W_cnn"):
        return tensor.squeeze(0).permute(2, 1, 0).contiguous()
    if dataset.endswith(("/W_0", "/B")):
        tensor = _reordered_gates(tensor.t() if tensor.dim() == 2 else tensor)
        if dataset.endswith("/B"):
            tensor.chunk(4)[1].add_(_FORGET_BIAS)
        return tensor.contiguous()
    return tensor.t().contiguous() if tensor.dim() == 2 else tensor


def _to_tensorflow(dataset: str, tensor: torch.Tensor) -> np.ndarray:
    """Reverses `_to_torch`."""
    tensor = tensor.detach().cpu().float()
    if dataset == CHARACTER_TABLE:
        tensor = tensor[1:]
    elif dataset.startswith("CNN/W_cnn"):
        tensor = tensor.permute(2, 1, 0).unsqueeze(0)
    elif dataset.endswith(("/W_0", "/B")):
        if dataset.endswith("/B"):
            tensor = tensor.clone()
            tensor.chunk(4)[1].sub_(_FORGET_BIAS)
        tensor = _reordered_gates(tensor)
        tensor = tensor.t() if tensor.dim() == 2 else tensor
    elif dataset != WORD_TABLE and tensor.dim() == 2:
        tensor = tensor.t()
    return tensor.contiguous().numpy()


def _reordered_gates(weights: torch.Tensor) -> torch.Tensor:
    """Reorders the rows of the gates i, candidate, f, o to i, f, candidate, o; it is its own inverse."""
    return torch.cat([weights.chunk(4)[gate] for gate in (0, 2, 1, 3)])


# Arrays


@contextmanager
def opened(source: FilePath, content: str) -> Iterator[h5py.File]:
    """
    Opens an HDF5 file. One that is damaged or cut off, another file, or a folder is an `ElmoError`, which
    says that it should hold `content`.
    """
    if stat.S_ISDIR(os.stat(source).st_mode):
        raise ElmoError(f"this is a folder, not an HDF5 file of {content}", where=source)
    # h5py raises errors of many kinds for a damaged file.
    what = f"not a complete HDF5 file of {content}"
    with errors_as(ElmoError, what, where=source), h5py.File(source, "r") as file:
        yield file


class DatasetError(ElmoError, RuntimeError):
    """A dataset that does not fit the options, for which PyTorch raises a `RuntimeError`."""


class _Writing(FileIO):
    """A file that HDF5 writes. HDF5 must not learn of a failed write, after which it ends the process."""

    error: OSError | None = None

    def write(self, content: Any) -> int:
        unwritten = memoryview(content).cast("B")
        try:
            while unwritten:
                unwritten = unwritten[super().write(unwritten) :]
        except OSError as error:
            self.error = self.error or error
        return memoryview(content).nbytes


@contextmanager
def _written(path: FilePath, mode: str) -> Iterator[h5py.File]:
    with _Writing(path, "w+" if mode == "w" else mode) as target:
        try:
            with h5py.File(target, mode) as file:
                yield file
        finally:
            if target.error is not None:
                raise target.error


def read_array(file: h5py.File, dataset: str, shape: tuple[int, ...]) -> np.ndarray:
    """
    Reads a dataset as float32. One of another shape or kind, in another file, different from its checksum, or
    with values above `MAX_WEIGHT` is an `ElmoError`.
    """
    stored = file.get(dataset)
    # Before memory is allocated, or another file is read
    problem = _header_problem(file, stored, shape)
    array = np.empty(0, np.float32)
    if not problem:
        content = stored[...]
        if stored.attrs.get(_CHECKSUM) not in (None, _checksum(dataset, content)):
            problem = "is damaged, its checksum differs"
        with np.errstate(over="ignore"):
            array = content.astype(np.float32, copy=False)
        if not -MAX_WEIGHT <= array.min() <= array.max() <= MAX_WEIGHT:
            index = tuple(np.argwhere(~(np.abs(array) <= MAX_WEIGHT))[0].tolist())
            problem = f"holds {array[index]} at {index}, and weights are finite and at most {MAX_WEIGHT:,}"
    if problem:
        raise DatasetError(f"dataset {dataset} {problem}", where=file.filename)
    return array


def _header_problem(file: h5py.File, stored: Any, shape: tuple[int, ...]) -> str:
    if not isinstance(stored, h5py.Dataset):
        return f"{shape} is missing"
    if stored.shape != shape:
        return f"has the shape {stored.shape}, but the options say {shape}"
    if stored.external or stored.is_virtual or stored.file.filename != file.filename:
        return "is in another file"
    if stored.dtype.kind != "f":
        return f"has the type {stored.dtype}, which is not floating point"
    # Deflate packs at most 1032 bytes into one.
    max_bytes = os.path.getsize(file.filename) * (1032 if stored.chunks else 1)
    stored_bytes = stored.id.get_storage_size()
    if stored_bytes == 0 or stored.nbytes > max_bytes:
        return f"has {stored.nbytes:,} bytes by its header, and the file holds {stored_bytes:,} of them"
    return ""


def write_array(file: h5py.File, dataset: str, array: np.ndarray, dtype: str) -> None:
    """Writes a matrix as `dtype`, a vector as float32; values that it cannot hold are an `ElmoError`."""
    with np.errstate(over="ignore"):
        stored = array.astype(dtype if array.ndim > 1 else "float32")
    if not np.isfinite(stored).all():
        largest = np.finfo(stored.dtype).max
        raise ElmoError(
            f"dataset {dataset} holds values up to {np.abs(array).max():.3g}, which {stored.dtype} cannot "
            f"hold; its largest is {largest:.3g}"
        )
    file.create_dataset(dataset, data=stored)


def add_checksums(path: FilePath) -> None:
    with _written(path, "r+") as file:
        for name, dataset in _datasets(file).items():
            dataset.attrs[_CHECKSUM] = _checksum(name, dataset[...])


def _datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    items: dict[str, h5py.Dataset] = {}
    file.visititems(items.__setitem__)
    return {name: item for name, item in items.items() if isinstance(item, h5py.Dataset)}


def _checksum(dataset: str, array: np.ndarray) -> str:
    hashed = blake2b(f"{dataset} {array.dtype.str} {array.shape}".encode(), digest_size=16)
    hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()
