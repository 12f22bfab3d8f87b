"""
The official layout of a biLM: `options.json` and an HDF5 file of weights, as bilm-tf writes them and
AllenNLP reads them.

| dataset | shape |
| --- | --- |
| `embedding` | (words, projection): one row a line of the vocabulary; or, of a biLM that reads characters: |
| `char_embed` | (261, char dim): one row an id of `characters.py` but 0 |
| `CNN/W_cnn_{i}`, `CNN/b_cnn_{i}` | (1, width, char dim, filters), (filters) |
| `CNN_high_{i}/W_carry`, `W_transform` | (all filters, all filters) |
| `CNN_high_{i}/b_carry`, `b_transform` | (all filters) |
| `CNN_proj/W_proj`, `b_proj` | (all filters, projection), (projection) |
| `RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/W_0`, `B` | (2 projection, 4 dim), (4 dim) |
| `RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/W_P_0` | (dim, projection) |
| `softmax/W`, `softmax/b` | (words, projection), (words): one row a line of the vocabulary; may be missing |

d = 0 is the forward and 1 the backward direction; `W_0` holds the input rows above the recurrent ones,
its columns are the gates i, j (candidate), f, o; TensorFlow adds 1 to f outside of the bias.
"""

from collections.abc import Iterator

import h5py
import numpy as np
import torch

from elmo_tasks.elmo.model.characters import NUM_CHARACTERS
from elmo_tasks.elmo.model.errors import ElmoError, FilePath
from elmo_tasks.elmo.model.hdf5_arrays import opened, read_array, write_array
from elmo_tasks.elmo.model.options import BiLmOptions, CharacterOptions

CHARACTER_TABLE, WORD_TABLE = "char_embed", "embedding"
"""The datasets by which the two kinds of biLM are told apart."""
SOFTMAX = ("softmax/W", "softmax/b")
"""The language model's output layer, under bilm-tf's names for it; its own dumps leave it out."""
_FORGET_BIAS = 1.0


def read_weights(source: FilePath, options: BiLmOptions) -> Iterator[tuple[str, torch.Tensor]]:
    """
    The weights of an official HDF5 file, one at a time, under their names in a `BiLm(options)`.

    # Raises
    `ElmoError`, with the file and the dataset: see `opened` and `read_array`; one for which the options have
    no place; or weights of a biLM that reads words with options of one that reads characters, or the reverse.
    """
    with opened(source, "biLM weights") as file:
        _refuse_other_kind(file, options)
        _refuse_surplus(file, {dataset for _, dataset, _ in _layout(options)})
        for name, dataset, shape in _layout(options):
            hint = _shape_hint(file, dataset, shape)
            yield name, _to_torch(dataset, read_array(file, dataset, shape, hint=hint))


def read_softmax(source: FilePath, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor] | None:
    """
    The softmax of an official HDF5 file, or `None` where it holds none.

    *Shape:* weight `(words, projection_dim)` and bias `(words,)`, in the order of the vocabulary.

    # Raises
    `ElmoError`, with the file, the dataset, and found and expected shape.
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
    Writes what `read_weights` and `read_softmax` read; `weights` is the state dict of a `BiLm(options)`.

    `dtype` is that of matrices; biases, a small part, stay float32: AllenNLP adds 1 to them in the precision
    they are stored in.

    # Raises
    `ElmoError`, with the dataset: values that are not finite, or too large for `dtype`.
    """
    with h5py.File(path, "w") as file:
        for name, dataset, shape in _layout(options):
            write_array(file, dataset, _to_tensorflow(dataset, weights[name]).reshape(shape), dtype)
        if softmax is not None:
            for dataset, part in zip(SOFTMAX, softmax, strict=True):
                write_array(file, dataset, part.detach().cpu().float().numpy(), dtype)


def _layout(options: BiLmOptions) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(parameter of `BiLm`, official dataset, its shape there), for every weight of the biLM."""
    tokens, size = options.tokens, options.projection_dim
    if isinstance(tokens, CharacterOptions):
        if tokens.dictionaries is not None:
            raise ElmoError(
                "found a biLM with dictionaries of Unicode characters, expected one of UTF-8 bytes or of "
                "words: the official layout has no place for dictionaries"
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
    for i, (width, number) in enumerate(options.filters):
        kernel = (1, width, options.dim, number)
        yield f"{encoder}.convolutions.{i}.weight", f"CNN/W_cnn_{i}", kernel
        yield f"{encoder}.convolutions.{i}.bias", f"CNN/b_cnn_{i}", (number,)
    for i in range(options.n_highway):
        for gate in ("carry", "transform"):
            highway = f"{encoder}.highways.{i}.{gate}"
            yield f"{highway}.weight", f"CNN_high_{i}/W_{gate}", (filters, filters)
            yield f"{highway}.bias", f"CNN_high_{i}/b_{gate}", (filters,)
    if filters != projection_dim:
        yield f"{encoder}.projection.weight", "CNN_proj/W_proj", (filters, projection_dim)
        yield f"{encoder}.projection.bias", "CNN_proj/b_proj", (projection_dim,)


def _shape_hint(file: h5py.File, dataset: str, shape: tuple[int, ...]) -> str:
    """What is to be said of a table of characters with all ids."""
    stored_shape = getattr(file.get(dataset), "shape", shape)
    with_zero_row = dataset == CHARACTER_TABLE and stored_shape == (NUM_CHARACTERS, *shape[1:])
    return " (the row of id 0 is not part of the official file)" if with_zero_row else ""


def _refuse_other_kind(file: h5py.File, options: BiLmOptions) -> None:
    kinds = {CHARACTER_TABLE: "characters", WORD_TABLE: "words"}
    wanted = CHARACTER_TABLE if isinstance(options.tokens, CharacterOptions) else WORD_TABLE
    for table, kind in kinds.items():
        if table != wanted and table in file and wanted not in file:
            raise ElmoError(
                f"{file.filename}: found {table} of a biLM that reads {kind}, but the options are of one "
                f"that reads {kinds[wanted]}"
            )


def _refuse_surplus(file: h5py.File, expected: set[str]) -> None:
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
        raise ElmoError(
            f"{file.filename}: dataset {surplus[0]} has no place in a biLM of these options; "
            "do the options and the weights belong together?"
        )


def _is_weight(dataset: str) -> bool:
    """Whether a dataset is one of the biLM's; its softmax, which may be stored beside it, is not."""
    return dataset.split("/")[0].startswith((CHARACTER_TABLE, WORD_TABLE, "CNN", "RNN"))


def _gates(weights: torch.Tensor) -> torch.Tensor:
    """Puts the rows of the gates i, candidate, f, o into the order i, f, candidate, o; twice is as before."""
    return torch.cat([weights.chunk(4)[gate] for gate in (0, 2, 1, 3)])


def _to_torch(dataset: str, array: np.ndarray) -> torch.Tensor:
    """An official array as our parameter: rows are outputs, gates in the order i, f, candidate, o."""
    tensor = torch.from_numpy(array)
    if dataset == WORD_TABLE:
        return tensor
    if dataset == CHARACTER_TABLE:
        return torch.cat([torch.zeros(1, tensor.size(1)), tensor])
    if dataset.startswith("CNN/W_cnn"):
        return tensor.squeeze(0).permute(2, 1, 0).contiguous()
    if dataset.endswith(("/W_0", "/B")):
        tensor = _gates(tensor.t() if tensor.dim() == 2 else tensor)
        if dataset.endswith("/B"):
            tensor.chunk(4)[1].add_(_FORGET_BIAS)
        return tensor.contiguous()
    return tensor.t().contiguous() if tensor.dim() == 2 else tensor


def _to_tensorflow(dataset: str, tensor: torch.Tensor) -> np.ndarray:
    """The inverse of `_to_torch`."""
    tensor = tensor.detach().cpu().float()
    if dataset == CHARACTER_TABLE:
        tensor = tensor[1:]
    elif dataset.startswith("CNN/W_cnn"):
        tensor = tensor.permute(2, 1, 0).unsqueeze(0)
    elif dataset.endswith(("/W_0", "/B")):
        if dataset.endswith("/B"):
            tensor = tensor.clone()
            tensor.chunk(4)[1].sub_(_FORGET_BIAS)
        tensor = _gates(tensor)
        tensor = tensor.t() if tensor.dim() == 2 else tensor
    elif dataset != WORD_TABLE and tensor.dim() == 2:
        tensor = tensor.t()
    return tensor.contiguous().numpy()
