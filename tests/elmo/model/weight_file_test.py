import h5py
import numpy as np
import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLm, BiLmOptions
from elmo_tasks.elmo.model.weight_file import read_weights, write_weights
from tests.elmo.files import changed, make_files, read_bilm
from tests.errors import error_of


def replace(weight_file, dataset, array):
    with h5py.File(weight_file, "r+") as file:
        if dataset in file:
            del file[dataset]
        if array is not None:
            file[dataset] = array


@pytest.mark.parametrize("changes", [{}, {"n_highway": 0}, {"dim": 18, "projection_dim": 18}])
def test_writes_what_it_reads(tmp_path, changes):
    options_file, weight_file = make_files(tmp_path, **changes)
    bilm = read_bilm(options_file, weight_file)
    write_weights(tmp_path / "again.hdf5", bilm.options, bilm.state_dict())
    again = dict(read_weights(tmp_path / "again.hdf5", bilm.options))
    assert again.keys() == bilm.state_dict().keys()
    for name, tensor in bilm.state_dict().items():
        # The forget gate's bias is stored without TensorFlow's 1.
        torch.testing.assert_close(again[name], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("dataset", "array", "expected"),
    [
        ("char_embed", None, "dataset char_embed is missing, expected shape (261, 4)"),
        ("char_embed", np.zeros((262, 4)), "char_embed has shape (262, 4), expected (261, 4)"),
        ("CNN/W_cnn_1", np.zeros((1, 3, 4, 6)), "has shape (1, 3, 4, 6), expected (1, 2, 4, 6)"),
        (
            "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0",
            None,
            "Cell0/LSTMCell/W_P_0 is missing, expected shape (12, 6)",
        ),
        (
            "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B",
            np.zeros(48),
            "Cell2/LSTMCell/B (48,) has no place in a biLM of these options",
        ),
        ("CNN_proj/b_proj", np.full(6, np.nan), "CNN_proj/b_proj holds values that are not finite"),
    ],
)
def test_wrong_weights(tmp_path, dataset, array, expected):
    options_file, weight_file = make_files(tmp_path)
    replace(weight_file, dataset, array)
    message = error_of(ElmoError, read_bilm, options_file, weight_file)
    assert expected in message
    assert str(weight_file) in message


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dim": 14}, "has shape (12, 48), expected (12, 56)"),
        ({"n_layers": 1}, "has no place in a biLM of these options"),
        ({"n_layers": 3}, "Cell2/LSTMCell/W_0 is missing"),
        ({"n_highway": 1}, "dataset CNN_high_1/"),
    ],
)
def test_options_of_another_model(tmp_path, changes, expected):
    _, weight_file = make_files(tmp_path)
    bilm = BiLm(options=BiLmOptions.read(changed(**changes)))
    assert expected in error_of(ElmoError, bilm.load_weights, weight_file)


@pytest.mark.parametrize("content", ["text", "half"])
def test_file_that_is_not_whole(tmp_path, content):
    options_file, weight_file = make_files(tmp_path)
    data = weight_file.read_bytes()
    weight_file.write_bytes(b"<html>404</html>" if content == "text" else data[: len(data) // 2])
    message = error_of(ElmoError, read_bilm, options_file, weight_file)
    assert f"{weight_file}: not a whole HDF5 file" in message


def test_missing_file(tmp_path):
    options = BiLmOptions.read(make_files(tmp_path)[0])
    with pytest.raises(FileNotFoundError, match=r"nowhere\.hdf5"):
        BiLm(options=options).load_weights(tmp_path / "nowhere.hdf5")
