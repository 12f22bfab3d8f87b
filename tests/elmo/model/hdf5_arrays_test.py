"""What is damaged, or comes from others, is in `tests/robustness/weights_test.py`."""

import h5py
import numpy as np
import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model.weight_file import add_checksums, opened, read_array, write_array


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        write_array(file, "matrix", np.full((2, 3), 0.1), "float16")
        write_array(file, "vector", np.full(3, 0.1), "float16")
    return tmp_path / "a.hdf5"


def test_matrices_have_the_type_and_vectors_are_float32(path):
    add_checksums(path)
    with opened(path, "arrays") as file:
        assert (file["matrix"].dtype, file["vector"].dtype) == (np.float16, np.float32)
        matrix = read_array(file, "matrix", (2, 3))
        assert matrix.dtype == np.float32
        assert (matrix == np.float16(0.1)).all()
        assert (read_array(file, "vector", (3,)) == np.float32(0.1)).all()


@pytest.mark.parametrize(
    ("dataset", "found"),
    [("matrix", "has shape (2, 3), expected (3, 2) from the options (!)"), ("no", "is missing")],
)
def test_errors_name_the_file_and_the_dataset(path, dataset, found):
    with opened(path, "arrays") as file, pytest.raises(ElmoError) as caught:
        read_array(file, dataset, (3, 2), hint=" (!)")
    assert str(caught.value).startswith(f"{path}: dataset {dataset} {found}")


def test_values_that_the_type_cannot_hold(tmp_path):
    with (
        h5py.File(tmp_path / "a.hdf5", "w") as file,
        pytest.raises(ElmoError, match="matrix holds values up to 7e"),
    ):
        write_array(file, "matrix", np.full((2, 2), 7e4), "float16")
