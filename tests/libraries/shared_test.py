import h5py
import numpy as np
import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.libraries.shared import BiLmFiles, check_layer, chosen_layer
from tests.elmo.files import make_files


def test_a_bilm_is_read_once_and_again_when_its_files_change(tmp_path):
    options, weights = make_files(tmp_path)
    files = BiLmFiles(str(options), str(weights))
    first = files.embedder()
    assert BiLmFiles(str(options), str(weights)).embedder() is first
    before = first.embed_sentence(["cat"])
    with h5py.File(weights, "r+") as file:
        file["CNN_proj/b_proj"][...] += 1
    assert not np.allclose(files.embedder().embed_sentence(["cat"]), before)


def test_a_layer_is_the_average_or_one_by_its_number():
    layers = np.arange(24.0).reshape(3, 2, 4)
    assert chosen_layer(layers, "average").tolist() == (layers.sum(axis=0) / 3).tolist()
    assert chosen_layer(layers, -1).tolist() == layers[2].tolist()
    for layer in ("average", 0, 2, -3):
        check_layer(layer, 3)
    for layer in (3, -4, "top", "1"):
        with pytest.raises(
            ElmoError, match=f"layer: found {layer!r}, expected 'average' or a number from -3"
        ):
            check_layer(layer, 3)
