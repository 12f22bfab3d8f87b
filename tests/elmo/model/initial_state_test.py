import h5py
import numpy as np
import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.model.weight_file import read_initial_state, write_initial_state
from tests.elmo.files import OPTIONS


def test_reads_what_it_writes(tmp_path):
    file = tmp_path / "state.hdf5"
    hidden, cell = torch.ones(2, 2, 6), torch.full((2, 2, 12), 2.0)
    write_initial_state(file, hidden, cell, attributes={"sentences": 3})
    read = read_initial_state(file, BiLmOptions.read(OPTIONS))
    assert all(map(torch.equal, read, (hidden, cell)))
    with h5py.File(file, "r+") as state:
        assert state.attrs["sentences"] == 3
        del state["memory"]
        state["memory"] = np.zeros((2, 12))
    with pytest.raises(ElmoError) as caught:
        read_initial_state(file, BiLmOptions.read(OPTIONS))
    assert f"{file}: dataset memory has shape (2, 12), expected (2, 2, 12)" in str(caught.value)
