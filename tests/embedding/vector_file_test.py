"""The HDF5 file of `embed`, in the layout of AllenNLP 0.9, and the text on disk that it is made of."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding import vector_file
from elmo_tasks.embedding.corpus import MAX_TOKENS, SourceLine, write_corpus
from elmo_tasks.embedding.vector_file import check_writable, write_vectors
from tests.commands.texts import LINES
from tests.errors import error_of, mentions

LAYERS, DIM = 3, 5


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").mkdir()
    lines = (SourceLine("in", line_number, line) for line_number, line in enumerate(LINES, start=1))
    return write_corpus(lines, tmp_path / "text")


def former_command(path: Path, embedded: list[np.ndarray]) -> None:
    """Writes vectors as AllenNLP 0.9 wrote them."""
    sentences = [line.strip() for line in LINES]
    with h5py.File(path, "w") as file:
        sentence_to_index = {}
        for key, output in enumerate(embedded):
            sentence_to_index[sentences[key]] = str(key)
            file.create_dataset(str(key), output.shape, dtype="float32", data=output)
        dataset = file.create_dataset("sentence_to_index", (1,), dtype=h5py.special_dtype(vlen=str))
        dataset[0] = json.dumps(sentence_to_index)


@pytest.mark.parametrize("one_layer", [False, True])
def test_the_file_reads_as_that_of_the_former_command(text, tmp_path, one_layer):
    draw = np.random.default_rng(1)
    vectors = [draw.normal(size=(LAYERS, len(line.split()), DIM)).astype(np.float32) for line in LINES]
    if one_layer:
        vectors = [each[-1] for each in vectors]
    leading = () if one_layer else (LAYERS,)
    write_vectors(
        tmp_path / "ours.hdf5", text, vectors, shape=lambda tokens: (*leading, tokens, DIM), with_index=True
    )
    former_command(tmp_path / "former.hdf5", vectors)
    with h5py.File(tmp_path / "ours.hdf5") as ours, h5py.File(tmp_path / "former.hdf5") as former:
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
    needed = text.tokens * 10**8
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=needed))
    # There is the index, too.
    message = error_of(ElmoError, check_writable, tmp_path, text, size=needed, with_index=True)
    assert mentions(message, f"{tmp_path}: ", f"{needed / 1e9:.3f} GB")


def test_an_index_that_could_not_be_read(text, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_file, "_MAX_INDEX", 100)
    with pytest.raises(ElmoError, match=r"h5py.*100.*--forget-sentences"):
        check_writable(tmp_path, text, size=0, with_index=True)
    check_writable(tmp_path, text, size=0, with_index=False)


@pytest.mark.parametrize("keys", [["a", "a"], ["a", "a/b"], ["."]])
def test_keys_that_are_not_names(tmp_path, keys):
    text = write_corpus([SourceLine("in", n, "A cat", key) for n, key in enumerate(keys, 1)], tmp_path)
    with pytest.raises(ElmoError, match=r"the key '.*'"):
        check_writable(tmp_path, text, size=0, with_index=False)


def test_keys_of_a_text(tmp_path):
    lines = [SourceLine("in", i, f" {text} ") for i, text in enumerate(["a b", "", "c"], 1)]
    text = write_corpus(lines, tmp_path)
    assert not text.has_keys
    assert list(text.keyed_lines()) == [("0", "a b"), ("1", ""), ("2", "c")]
    digest = text.digest
    keys = ["first", "second\u2028", "a/third"]
    named = (line._replace(key=key) for line, key in zip(lines, keys, strict=True))
    text = write_corpus(named, tmp_path)
    assert text.has_keys
    assert list(text.keyed_lines()) == list(zip(keys, ["a b", "", "c"], strict=True))
    assert text.tokens == 3
    assert text.digest != digest


def test_a_line_that_is_too_long(tmp_path):
    with pytest.raises(ElmoError, match=r"in, line 7: .*65,537"):
        write_corpus([SourceLine("in", 7, "w " * (MAX_TOKENS + 1))], tmp_path)
