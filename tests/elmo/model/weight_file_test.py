"""HDF5 files. Damaged ones, and those of strangers, are in `tests/robustness/weights_test.py`."""

import json

import numpy as np
import pytest
import torch

h5py = pytest.importorskip("h5py")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.model.weight_file import initial_state_in, write_initial_state, write_weights
from tests.elmo.files import OPTIONS, VOCABULARY, make_files, make_word_files, read_bilm
from tests.errors import error_of, mentions


def replace(file, dataset, array):
    with h5py.File(file, "r+") as opened_file:
        if dataset in opened_file:
            del opened_file[dataset]
        if array is not None:
            opened_file[dataset] = array


def assert_written_as_read(bilm, folder, *vocabulary_file):
    (folder / "options.json").write_text(json.dumps(bilm.options.to_json()))
    write_weights(folder / "again.hdf5", bilm.options, bilm.state_dict())
    again = read_bilm(folder / "options.json", folder / "again.hdf5", *vocabulary_file)
    assert again.options == bilm.options
    for name, tensor in bilm.state_dict().items():
        # The forget gate's bias is stored without TensorFlow's 1.
        torch.testing.assert_close(again.state_dict()[name], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize("changes", [{}, {"n_highway": 0}, {"dim": 18, "projection_dim": 18}])
def test_writes_what_it_reads(tmp_path, changes):
    assert_written_as_read(read_bilm(*make_files(tmp_path, **changes)), tmp_path)


def test_writes_what_it_reads_of_words(tmp_path):
    files = make_word_files(tmp_path)
    bilm = read_bilm(**files)
    with h5py.File(files["weight_file"]) as file:
        assert file["embedding"].shape == (len(VOCABULARY), 6)
        np.testing.assert_array_equal(file["embedding"][...], bilm.token_encoder.embedding.detach())
    assert_written_as_read(bilm, tmp_path, files["vocabulary_file"])


LAST_CELL = "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B"


@pytest.mark.parametrize(
    ("dataset", "array", "expected"),
    [
        ("char_embed", None, "char_embed (261, 4) is missing"),
        ("char_embed", np.zeros((262, 4)), "char_embed has the shape (262, 4), but the options say (261, 4)"),
        ("CNN/W_cnn_1", np.zeros((1, 3, 4, 6)), "(1, 3, 4, 6)"),
        (LAST_CELL, np.zeros(48), f"{LAST_CELL} (48,) has no place"),
        ("RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0", None, "/W_P_0 (12, 6) is missing"),
        ("CNN_proj/b_proj", np.full(6, np.nan), "CNN_proj/b_proj holds"),
    ],
)
def test_wrong_weights(tmp_path, dataset, array, expected):
    options_file, weight_file = make_files(tmp_path)
    replace(weight_file, dataset, array)
    message = error_of(ElmoError, read_bilm, options_file, weight_file)
    assert message.startswith(f"{weight_file}: ")
    assert expected in message


@pytest.mark.parametrize("content", ["text", "half"])
def test_a_file_that_is_not_whole(tmp_path, content):
    options_file, weight_file = make_files(tmp_path)
    data = weight_file.read_bytes()
    weight_file.write_bytes(b"<html>404</html>" if content == "text" else data[: len(data) // 2])
    message = error_of(ElmoError, read_bilm, options_file, weight_file)
    assert mentions(message, f"{weight_file}: ", "HDF5")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.hdf5"):
        read_bilm(options_file, tmp_path / "nowhere.hdf5")


def test_the_initial_state(tmp_path):
    file, options = tmp_path / "state.hdf5", BiLmOptions.read(OPTIONS)
    hidden, cell = torch.ones(2, 2, 6), torch.full((2, 2, 12), 2.0)
    write_initial_state(file, hidden, cell, attributes={"sentences": 3})
    assert all(map(torch.equal, initial_state_in(file, options)[:2], (hidden, cell)))
    with h5py.File(file) as state:
        assert state.attrs["sentences"] == 3
    replace(file, "memory", np.zeros((2, 12)))
    message = error_of(ElmoError, initial_state_in, file, options)
    assert mentions(message, f"{file}: ", "memory", "(2, 12)", "(2, 2, 12)")
