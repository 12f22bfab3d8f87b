"""`allennlp elmo calibrate`, against a computation that goes line by line."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
import torch

h5py = pytest.importorskip("h5py")

from elmo_tasks.commands import bilm as calibrate
from elmo_tasks.elmo.files import read_initial_state
from tests.commands.texts import LINES, default_bilm, encode

pytestmark = pytest.mark.usefixtures("small_default")
SENTENCES = [line.split() for line in LINES if line.split()]


@pytest.fixture
def output(tmp_path) -> Path:
    return tmp_path / "state.hdf5"


def mean_start(sentences: list[list[str]], bounds: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Each lane for itself, sentence by sentence."""
    bilm, starts = default_bilm(), []
    for first, end in pairwise(bounds):
        state = None
        for words in sentences[first : end - 1]:
            _, state = encode(bilm, [words], state)
            starts.append(state)
    return tuple(
        torch.stack([state[part][:, :, 0].double() for state in starts]).mean(dim=0) for part in (0, 1)
    )


def check(output: Path, sentences: list[list[str]], bounds: list[int]) -> None:
    bilm = default_bilm()
    for found, expected in zip(
        read_initial_state(output, bilm.options), mean_start(sentences, bounds), strict=True
    ):
        assert found.shape == expected.shape
        assert (found - expected).abs().max() < 1e-6
    with h5py.File(output) as file:
        assert dict(file.attrs) == {
            "sentences": len(sentences),
            "starts": len(sentences) - (len(bounds) - 1),
            "digest": bilm.digest().encode(),
        }


@pytest.mark.parametrize(
    ("lanes", "bounds"),
    [(1, [0, 8]), (2, [0, 4, 8]), (3, [0, 2, 5, 8]), (4, [0, 2, 4, 6, 8]), (32, [0, 2, 4, 6, 8])],
)
@pytest.mark.parametrize("batch_tokens", [4, 2048])
def test_mean_of_the_starts(elmo, source, output, terminal, capsys, monkeypatch, lanes, bounds, batch_tokens):
    assert len(SENTENCES) == 8
    monkeypatch.setattr(calibrate, "BATCH_TOKENS", batch_tokens)
    assert elmo("calibrate", source, output, "--lanes", lanes) == 0
    check(output, SENTENCES, bounds)
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{output}: the mean of {9 - len(bounds)} starts; 8 sentences, 44 tokens, ")
    assert "calibrate:   0%" in shown.err
    assert sorted(path.name for path in output.parent.iterdir()) == ["in.txt", "state.hdf5"]


def test_max_sentences(elmo, source, output):
    assert elmo("calibrate", source, output, "--max-sentences", 5, "--lanes", 1) == 0
    check(output, SENTENCES[:5], [0, 5])


def test_errors(elmo, source, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text, message in ((b"fine\n\xff\n", "in.txt, line 2"), (b"one sentence\n\n", "two sentences")):
        source.write_bytes(text)
        assert elmo("calibrate", "in.txt", "out") == 1
        assert message in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["in.txt"]
