"""Where each sentence starts: an LSTM state in an HDF5 file, as `allennlp elmo calibrate` writes it."""

import h5py
import torch

from elmo_tasks.elmo.model.errors import FilePath
from elmo_tasks.elmo.model.hdf5_arrays import opened, read_array
from elmo_tasks.elmo.model.options import BiLmOptions


def read_initial_state(source: FilePath, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Where each sentence starts: the datasets `hidden` and `memory` of an HDF5 file.

    *Shape:* `(layers, 2 directions, projection_dim)` and `(layers, 2 directions, dim)`.

    # Raises
    `ElmoError`, with the file and the dataset: see `opened` and `read_array`.
    """
    sizes = {"hidden": options.projection_dim, "memory": options.dim}
    with opened(source, "an LSTM state") as file:
        hidden, cell = (
            torch.from_numpy(read_array(file, name, (options.n_layers, 2, size)))
            for name, size in sizes.items()
        )
    return hidden, cell


def write_initial_state(
    path: FilePath, hidden: torch.Tensor, cell: torch.Tensor, *, attributes: dict[str, str | int]
) -> None:
    """Writes what `read_initial_state` reads, as float32; `attributes` of the file say where it is from."""
    with h5py.File(path, "w") as file:
        for name, part in (("hidden", hidden), ("memory", cell)):
            file.create_dataset(name, data=part.detach().cpu().float().numpy())
        file.attrs.update(attributes)
