"""What `tests/commands/embed_test.py` does not run: pooled vectors, and datasets with names of their own."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.corpus import SourceLine, write_corpus
from elmo_tasks.embedding.hdf5 import Hdf5Run
from elmo_tasks.embedding.vector_file import VECTORS
from tests.commands.texts import DIM, encode, shipped_bilm

SENTENCES = {"P1": "A", "P/2-5": "The cat sat on the mat .", "empty": "", "é": "A dog"}


def embed(
    folder: Path, sentences: dict[str, str] | list[tuple[str | None, str]], **parameters: object
) -> Path:
    pairs = sentences.items() if isinstance(sentences, dict) else sentences
    lines = [SourceLine("in", number, text, key) for number, (key, text) in enumerate(pairs, 1)]
    bilm = shipped_bilm()
    text = write_corpus(lines, folder)
    run = Hdf5Run(
        bilm=bilm, text=text, folder=folder, start=bilm.initial_state(1), progress=False, **parameters
    )
    run.prepare()
    run.encode()
    return folder / VECTORS


@pytest.mark.parametrize("layers", ["all", "top", "average"])
@pytest.mark.parametrize("pool", ["none", "mean"])
def test_layers_and_pools(tmp_path, layers, pool):
    with h5py.File(embed(tmp_path, SENTENCES, layers=layers, pool=pool)) as file:
        assert "sentence_to_index" not in file
        for key, text in SENTENCES.items():
            if pool == "mean" and not text:
                continue
            vectors = encode(shipped_bilm(), [text.split()])[0][:, 0].numpy()
            if layers != "all":
                vectors = vectors[-1] if layers == "top" else vectors.mean(axis=0)
            if pool == "mean":
                vectors = vectors.mean(axis=-2)
            assert np.allclose(file[key][...], vectors, rtol=0, atol=1e-6)


def test_a_line_without_tokens_has_zeros(tmp_path):
    with h5py.File(embed(tmp_path, [(None, "A cat"), (None, "")], pool="mean")) as file:
        assert file["0"].shape == (3, DIM)
        assert np.array_equal(file["1"], np.zeros((3, DIM)))
        assert "sentence_to_index" in file


@pytest.mark.parametrize("keys", [["a", "a"], ["a", "a/b"], ["."]])
def test_keys_that_are_no_names(tmp_path, keys):
    with pytest.raises(ElmoError, match=r"found the key '.*', expected one that no other sentence has"):
        embed(tmp_path, [(key, "A cat") for key in keys])
