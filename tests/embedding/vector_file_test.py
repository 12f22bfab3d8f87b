"""The HDF5 file of `embed`, filled with random vectors; and the thread that writes it."""

import errno
import json
import os
import shutil
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding import vector_file
from elmo_tasks.embedding.batches import NumberedSentence
from elmo_tasks.embedding.corpus import Corpus, SourceLine, write_corpus
from elmo_tasks.embedding.vector_file import VECTORS, VectorFile, lay_out
from tests.commands.embed_runs import fail_with
from tests.commands.texts import LINES

LAYERS, DIM = 3, 5
SENTENCES = [NumberedSentence(line, text.split()) for line, text in enumerate(LINES, start=1)]


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").mkdir()
    lines = (SourceLine("in", line_number, line) for line_number, line in enumerate(LINES, start=1))
    return write_corpus(lines, tmp_path / "text")


@pytest.fixture
def expected() -> list[np.ndarray]:
    """The vectors of each line, `(layers, tokens, dim)`."""
    draw = np.random.default_rng(1)
    return [draw.normal(size=(LAYERS, len(words), DIM)).astype(np.float32) for _, words in SENTENCES]


def write(folder: Path, text: Corpus, vectors: list[np.ndarray], *, one_layer: bool = False) -> Path:
    """In three batches, those of the last lines first."""
    folder.mkdir()
    lay_out(folder, text, layers=None if one_layer else LAYERS, dim=DIM, with_index=True)
    with VectorFile.open(folder) as file:
        for start, end in reversed(list(pairwise([0, 4, 8, len(SENTENCES)]))):
            batch = [sentence for sentence in SENTENCES[start:end] if sentence.words]
            longest = max(len(words) for _, words in batch)
            # Padding must not be written.
            padded = np.full((LAYERS, len(batch), longest, DIM), np.nan, np.float32)
            for row, (line, words) in enumerate(batch):
                padded[:, row, : len(words)] = vectors[line - 1]
            file.write(batch, padded[-1:] if one_layer else padded)
        file.sync()
    return folder / VECTORS


def former_command(path: Path, embedded: list[np.ndarray]) -> None:
    """How AllenNLP 0.9 wrote them."""
    sentences = [line.strip() for line in LINES]
    with h5py.File(path, "w") as file:
        sentence_to_index = {}
        for key, output in enumerate(embedded):
            sentence_to_index[sentences[key]] = str(key)
            file.create_dataset(str(key), output.shape, dtype="float32", data=output)
        dataset = file.create_dataset("sentence_to_index", (1,), dtype=h5py.special_dtype(vlen=str))
        dataset[0] = json.dumps(sentence_to_index)


@pytest.mark.parametrize("one_layer", [False, True])
def test_the_file_reads_as_that_of_the_former_command(text, tmp_path, expected, one_layer):
    path = write(tmp_path / "work", text, expected, one_layer=one_layer)
    former_command(tmp_path / "former.hdf5", [each[-1] for each in expected] if one_layer else expected)
    with h5py.File(path) as ours, h5py.File(tmp_path / "former.hdf5") as former:
        assert list(ours.keys()) == list(former.keys())
        for name in former:
            assert ours[name].shape == former[name].shape
            assert ours[name].chunks is former[name].chunks is None
            if name != "sentence_to_index":
                assert ours[name].dtype == former[name].dtype
                assert np.array_equal(ours[name][...], former[name][...])
        read = [json.loads(file["sentence_to_index"][0]) for file in (ours, former)]
        assert read[0] == read[1]
        assert list(read[0]) == list(read[1])
        assert read[0]["Yes"] == "6"
        assert read[0]["Zoë\tflew to  Łódź 😀"] == "1"
        assert json.loads(ours["sentence_to_index"].asstr()[0]) == read[0]
        assert json.loads(ours.get("sentence_to_index")[0]) == read[0]
        assert isinstance(ours["sentence_to_index"][0], bytes)
        assert h5py.check_string_dtype(ours["sentence_to_index"].dtype).encoding == "utf-8"


def test_the_disk_is_too_small(text, tmp_path, monkeypatch):
    needed = text.tokens * 10**8 * 4
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=needed))
    # Beside the vectors there is the index.
    with pytest.raises(ElmoError) as caught:
        lay_out(tmp_path, text, layers=None, dim=10**8, with_index=True)
    shown = f"{tmp_path}: needs {needed / 1e9:.3f} GB of disk, {needed / 1e9:.3f} GB are free"
    assert str(caught.value) == shown
    assert not (tmp_path / VECTORS).exists()


def test_the_disk_cannot_reserve_so_much(text, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", fail_with(errno.EDQUOT), raising=False)
    with pytest.raises(ElmoError, match=r"needs 0\.\d+ GB of disk, .* GB are free"):
        lay_out(tmp_path, text, layers=LAYERS, dim=DIM, with_index=False)


def test_a_file_system_that_cannot_reserve(text, tmp_path, expected, monkeypatch):
    usual = write(tmp_path / "usual", text, expected).read_bytes()
    monkeypatch.setattr(os, "posix_fallocate", fail_with(errno.EOPNOTSUPP), raising=False)
    assert write(tmp_path / "one", text, expected).read_bytes() == usual
    monkeypatch.delattr(os, "posix_fallocate")
    assert write(tmp_path / "two", text, expected).read_bytes() == usual


def test_an_index_that_could_not_be_read(text, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_file, "_MAX_INDEX", 100)
    with pytest.raises(ElmoError, match=r"h5py.*100.*--forget-sentences"):
        lay_out(tmp_path, text, layers=LAYERS, dim=DIM, with_index=True)
    lay_out(tmp_path, text, layers=LAYERS, dim=DIM, with_index=False)


@pytest.mark.parametrize("keys", [["a", "a"], ["a", "a/b"], ["."]])
def test_keys_that_are_no_names(tmp_path, keys):
    text = write_corpus([SourceLine("in", n, "A cat", key) for n, key in enumerate(keys, 1)], tmp_path)
    with pytest.raises(ElmoError, match=r"the key '.*'"):
        lay_out(tmp_path, text, layers=None, dim=DIM, with_index=False)


def test_pooled_datasets(tmp_path):
    """A line without tokens has zeros."""
    text = write_corpus([SourceLine("in", 1, "A cat", "P/1"), SourceLine("in", 2, "", "empty")], tmp_path)
    lay_out(tmp_path, text, layers=None, dim=DIM, pooled=True, with_index=False)
    with VectorFile.open(tmp_path) as file:
        file.write([NumberedSentence(1, ["A", "cat"])], np.full((1, 1, 1, DIM), 3, np.float32))
    with h5py.File(tmp_path / VECTORS) as file:
        assert np.array_equal(file["P/1"][...], np.full(DIM, 3))
        assert np.array_equal(file["empty"][...], np.zeros(DIM))
        assert set(file) == {"P", "empty"}
