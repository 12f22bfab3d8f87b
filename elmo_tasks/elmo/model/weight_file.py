"""
The weights of a biLM, and the LSTM state that sentences start from; `array_file` reads the files.

The official layout of a biLM, as bilm-tf writes it to HDF5 and AllenNLP reads it, with an `options.json`:

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

`allennlp elmo export` writes the same datasets, with checksums, to HDF5 or safetensors.
"""

from collections.abc import Iterator

import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.elmo.model.array_file import ArrayFile, opened, stored_as, write_arrays
from elmo_tasks.elmo.model.characters import NUM_CHARACTERS
from elmo_tasks.elmo.model.options import BiLmOptions, CharacterOptions

CHARACTER_TABLE, WORD_TABLE = "char_embed", "embedding"
"""The datasets that tell the two kinds of biLM apart."""
SOFTMAX = ("softmax/W", "softmax/b")
"""The language model's output layer, by bilm-tf's names; bilm-tf's own dumps leave it out."""
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types of weights in files of PyTorch. It copies whole and complex numbers into floats silently."""
_FORGET_BIAS = 1.0


def read_weights(source: FilePath, options: BiLmOptions) -> Iterator[tuple[str, torch.Tensor]]:
    """
    Yields the weights of a file in the official layout one by one, with their names in a `BiLm(options)`. A
    dataset without a place in the options is an `ElmoError`.
    """
    layout = list(_official_layout(options))
    with opened(source, "biLM weights") as file:
        _refuse_surplus(file, {dataset for _, dataset, _ in layout})
        for name, dataset, shape in layout:
            yield name, _to_torch(dataset, file.read(dataset, shape))


def softmax_in(source: FilePath, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor] | None:
    """
    Reads the softmax, `None` if there is none. *Shape:* weight `(words, projection_dim)` and bias `(words,)`.
    """
    with opened(source, "biLM weights") as file:
        shapes = [shape for dataset in SOFTMAX if (shape := file.shape(dataset)) is not None]
        if not shapes:
            return None
        words = max(shape[0] if shape else 0 for shape in shapes)
        weight = file.read(SOFTMAX[0], (words, options.projection_dim))
        bias = file.read(SOFTMAX[1], (words,))
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
    Writes the state dict of a `BiLm(options)` in the official layout, which `read_weights` and `softmax_in`
    read, with checksums. Matrices have the type `dtype`; biases stay float32: AllenNLP adds 1 to them in the
    precision they are stored in. For errors see `stored_as`.
    """

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        for name, dataset, shape in _official_layout(options):
            yield dataset, _to_tensorflow(dataset, weights[name]).reshape(shape)
        if softmax is not None:
            for dataset, part in zip(SOFTMAX, softmax, strict=True):
                yield dataset, part.detach().cpu().float().numpy()

    write_arrays(path, ((dataset, stored_as(dtype, dataset, array)) for dataset, array in arrays()))


def initial_state_in(source: FilePath, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor, str | None]:
    """
    Reads the state of `allennlp elmo calibrate`, and the digest of its biLM, if the file has it. *Shape:*
    `(layers, 2 directions, projection_dim)` and `(layers, 2 directions, dim)`.
    """
    sizes = {"hidden": options.projection_dim, "memory": options.dim}
    with opened(source, "an LSTM state") as file:
        hidden, cell = (
            torch.from_numpy(file.read(name, (options.n_layers, 2, size))) for name, size in sizes.items()
        )
        return hidden, cell, file.attribute("digest")


def write_initial_state(
    path: FilePath, hidden: torch.Tensor, cell: torch.Tensor, *, attributes: dict[str, str | int]
) -> None:
    parts = {"hidden": hidden, "memory": cell}
    arrays = ((name, part.detach().cpu().float().numpy()) for name, part in parts.items())
    write_arrays(path, arrays, attributes=attributes)


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


def _refuse_surplus(file: ArrayFile, expected: set[str]) -> None:
    for name in file.names():
        # A softmax may be in the same file.
        if name.startswith((CHARACTER_TABLE, WORD_TABLE, "CNN", "RNN")) and name not in expected:
            raise ElmoError(
                f"dataset {name} {file.shape(name)} has no place in a biLM of these options",
                where=file.path,
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
