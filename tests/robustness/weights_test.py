"""Options and weights of a biLM that come from others."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

h5py = pytest.importorskip("h5py")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.files import DEFAULT_WEIGHTS, read_frozen_bilm, read_options, read_softmax
from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.model.weight_file import read_weights, write_weights
from tests.elmo.files import make_files
from tests.robustness.attempt import attempt


@pytest.fixture(scope="module", params=["hdf5", "safetensors"])
def files(request, tmp_path_factory):
    """Options, a weights file with checksums, and its weights."""
    options_file, of_hdf5 = make_files(tmp_path_factory.mktemp("files"))
    options = BiLmOptions.read(options_file)
    weight_file = of_hdf5.with_suffix(f".{request.param}")
    write_weights(weight_file, options, dict(read_weights(of_hdf5, options)))
    return options, weight_file, dict(read_weights(weight_file, options))


@given(
    position=st.integers(0), kind=st.sampled_from(["flip", "cut", "fill", "byte"]), value=st.integers(0, 255)
)
def test_damaged_weights_are_never_read(files, position, kind, value):
    options, weight_file, weights = files
    content = bytearray(weight_file.read_bytes())
    byte = position // 8 % len(content)
    if kind == "cut":
        del content[byte:]
    elif kind == "fill":
        content[byte : byte + 64] = bytes([value]) * len(content[byte : byte + 64])
    else:
        content[byte] = content[byte] ^ 1 << position % 8 if kind == "flip" else value
    with tempfile.TemporaryDirectory() as folder:
        damaged = Path(folder, weight_file.name)
        damaged.write_bytes(content)
        read, message = attempt(lambda: dict(read_weights(damaged, options)), error=ElmoError)
        if message:
            assert message.startswith(f"{damaged}: ")
        else:
            assert all(torch.equal(read[name], weight) for name, weight in weights.items())


def test_a_heap_that_hdf5_reads_without_end(tmp_path):
    """It holds texts of variable length."""
    options_file, weight_file = make_files(tmp_path)
    with h5py.File(weight_file, "a") as file:
        file["char_embed"].attrs["blake2b"] = "of variable length"
    content = weight_file.read_bytes()
    start = content.rindex(b"GCOL") + 16
    weight_file.write_bytes(content[:start] + bytes(64) + content[start + 64 :])
    options = BiLmOptions.read(options_file)
    assert "token_encoder.embedding" in dict(read_weights(weight_file, options))


def test_the_shipped_weights_have_checksums():
    with safe_open(DEFAULT_WEIGHTS, "np") as file:
        assert json.loads(file.metadata()["blake2b"]).keys() == set(file.keys())


B_CNN = "CNN/b_cnn_0"


def external(file: h5py.File, shape: tuple[int, ...]) -> None:
    file.create_dataset(B_CNN, shape, "f4", external=[("/etc/passwd", 0, 1000)])


def linked(file: h5py.File, shape: tuple[int, ...]) -> None:
    with h5py.File(f"{file.filename}.other", "w") as other:
        other["x"] = np.zeros(shape, "f4")
    file[B_CNN] = h5py.ExternalLink(f"{file.filename}.other", "x")


def never_written(file: h5py.File, shape: tuple[int, ...]) -> None:
    file.create_dataset(B_CNN, shape, "f4")


def of(value: object) -> object:
    def write(file: h5py.File, shape: tuple[int, ...]) -> None:
        file[B_CNN] = np.full(shape, value)

    return write


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (external, "is in another file"),
        (linked, "is in another file"),
        (never_written, "has 16 bytes by its header, and the file holds 0 of them"),
        (of(np.float32("nan")), r"holds nan at \(0,\)"),
        (of(np.float32(3e37)), r"holds 3.*e\+37 at \(0,\)"),
        (of(b"text"), r"has the type \|S4"),
    ],
)
def test_former_findings_of_weights(tmp_path, write, message):
    options_file, weight_file = make_files(tmp_path)
    with h5py.File(weight_file, "r+") as file:
        shape = file[B_CNN].shape
        del file[B_CNN]
        write(file, shape)
    with pytest.raises(ElmoError, match=rf"\.hdf5: dataset {B_CNN} .*{message}"):
        read_frozen_bilm(read_options(options_file), weight_file)


def test_sizes_beyond_the_file(tmp_path):
    """The header of a softmax, whose size no options bound, says 4 TiB."""
    options_file, weight_file = make_files(tmp_path)
    options = BiLmOptions.read(options_file)
    words = (1 << 40) // options.projection_dim
    with h5py.File(weight_file, "r+") as file:
        weight = file.create_dataset("softmax/W", (words, options.projection_dim), "f4", chunks=(1, 6))
        weight[0] = 1.0
        file.create_dataset("softmax/b", (words,), "f4", chunks=(1,))[0] = 1.0
    with pytest.raises(ElmoError, match=r"softmax/W.*4,398,\d+,\d+,\d+"):
        read_softmax(weight_file, options)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full(4, np.nan, np.float32), r"holds nan at \(0,\)"),
        (np.zeros(4, np.int32), "has the type I32"),
        (np.zeros(5, np.float32), r"has the shape \(5,\)"),
        (None, "is missing"),
    ],
)
def test_safetensors_of_others(tmp_path, array, message):
    options_file, of_hdf5 = make_files(tmp_path)
    options, path = read_options(options_file), tmp_path / "weights.safetensors"
    write_weights(path, options, dict(read_weights(of_hdf5, options)))
    arrays = load_file(path)
    arrays.pop(B_CNN)
    save_file(arrays if array is None else arrays | {B_CNN: array}, path)
    with pytest.raises(ElmoError, match=rf"\.safetensors: dataset {B_CNN} .*{message}"):
        read_frozen_bilm(options, path)
