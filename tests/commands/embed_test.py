"""`allennlp elmo embed`: what it writes, and what it refuses."""

import importlib.util
import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

h5py = pytest.importorskip("h5py")

from elmo_tasks.commands import embed, partial_outputs
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import Elmo, LstmState, files
from elmo_tasks.elmo.model.weight_file import write_initial_state
from tests.commands.embed_runs import nothing_left, partial, stop_at_batch, vectors
from tests.commands.texts import LINES, TEXT, default_bilm, default_files, encode
from tests.elmo.files import FILLING, make_word_files
from tests.elmo.numpy_reference import NumpyBiLm
from tests.errors import mentions

pytestmark = pytest.mark.usefixtures("small_default")
DIM = 2 * FILLING["projection_dim"]


def test_vectors_are_those_of_the_bilm(elmo, source, output, terminal, capsys):
    assert elmo("embed", source, output) == 0
    found, bilm = vectors(output), default_bilm()
    assert len(found) == len(LINES)
    # All in one batch, the longest first.
    order = sorted(
        (line for line in range(len(LINES)) if LINES[line].split()), key=lambda i: -len(LINES[i].split())
    )
    together, _ = encode(bilm, [LINES[line].split() for line in order])
    for row, line in enumerate(order):
        words = LINES[line].split()
        assert np.array_equal(found[line], together[:, row, : len(words)].numpy())
        alone, _ = encode(bilm, [words])
        assert np.abs(found[line] - alone[:, 0].numpy()).max() < 1e-6
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{output}: 10 sentences, 44 tokens, ")
    assert "embed:   0%" in shown.err
    assert not partial(output).exists()


def test_stateful_carries_the_state_over_all_lines(elmo, source, output, small_shards):
    """As bilm-tf's `dump_bilm_embeddings`: one lane, in order."""
    assert elmo("embed", source, output, "--stateful") == 0
    bilm, state = default_bilm(), None
    for words, found in zip(map(str.split, LINES), vectors(output), strict=True):
        if words:
            layers, state = encode(bilm, [words], state)
            assert np.array_equal(found, layers[:, 0].numpy())
    first, again = (vectors(output)[line] for line in (3, 6))
    assert np.abs(first - again).max() > 1e-3


def test_initial_state(elmo, source, output, tmp_path):
    bilm = default_bilm()
    torch.manual_seed(1)
    state = LstmState(*(0.3 * torch.randn(part.shape) for part in bilm.initial_state(1)))
    write_initial_state(tmp_path / "state.hdf5", state.hidden[:, :, 0], state.cell[:, :, 0], attributes={})
    assert elmo("embed", source, output, "--initial-state", tmp_path / "state.hdf5") == 0
    for words, found in zip(map(str.split, LINES), vectors(output), strict=True):
        if words:
            layers, _ = encode(bilm, [words], state)
            assert np.abs(found - layers[:, 0].numpy()).max() < 1e-6


@pytest.mark.parametrize("stateful", [False, True])
def test_a_bilm_that_reads_words(elmo, source, output, tmp_path, stateful):
    files = make_word_files(tmp_path / "bilm")
    names = [f"--{key.replace('_', '-')}={file}" for key, file in files.items()]
    state = tmp_path / "state.hdf5"
    assert elmo("calibrate", source, state, *names) == 0
    assert elmo("embed", source, output, *names, *(["--stateful"] if stateful else [])) == 0
    reference = NumpyBiLm(**files)
    for words, found in zip(map(str.split, LINES), vectors(output), strict=True):
        if not stateful:
            reference.reset()
        if words:
            np.testing.assert_allclose(found, reference(words), atol=1e-5)
    assert elmo("embed", source, output, "--force", "--initial-state", state, *names) == 0


def test_empty_lines_and_an_empty_input(elmo, source, output):
    source.write_bytes(b"\n \n\n")
    assert elmo("embed", source, output) == 0
    assert [found.shape for found in vectors(output)] == [(3, 0, DIM)] * 3
    source.write_bytes(b"")
    assert elmo("embed", source, output, "--force") == 0
    with h5py.File(output) as file:
        assert list(file) == ["sentence_to_index"]
        assert json.loads(file["sentence_to_index"][0]) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt", "out"], "nowhere.txt: there is no such file"),
        (["in.txt", "folder"], "folder is not a file"),
        (["in.txt", "out.csv"], "out.csv: "),
        (["in.txt", "in.txt"], "in.txt: "),
        (["in.txt", "out", "--options-file", "no", "--weight-file", "no"], "file no not found"),
        (["in.txt", "out", "--layers", "3"], "--layers is '3'"),
        (["in.txt", "out", "--tokenize", "en", "--format", "fasta"], "--tokenize"),
        (["in.txt", "out", "--initial-state", "in.txt"], "in.txt: "),
        (["in.txt", "out", "--workers", "2"], "--workers belongs to --engine ray"),
        (["in.txt", "file:///out.hdf5"], "file:///out.hdf5 needs --engine ray"),
        (["text.parquet", "out"], "text.parquet"),
    ],
)
def test_errors(elmo, source, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert elmo("embed", *arguments) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert message in shown
    assert "--resume" not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "in.txt"]
    assert source.read_text(encoding="utf-8") == TEXT


def test_raw_text_is_warned_of_once_and_can_be_split(elmo, source, output, capsys):
    source.write_text("Mr. Smith left Inc. early .\nShe lives in London.\nHe doesn't, either.\n")
    assert elmo("embed", source, output) == 0
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert mentions(warning, f"{source}, line 2", "'London.'")
    assert elmo("embed", source, output, "--tokenize", "en", "--force") == 0
    assert "warning" not in capsys.readouterr().err
    assert [found.shape[1] for found in vectors(output)] == [6, 5, 6]
    with h5py.File(output) as file:
        assert "He does n't , either ." in json.loads(file["sentence_to_index"][0])


def test_tokenised_text_with_an_abbreviation(elmo, source, output, capsys):
    source.write_text("Mrs. Dalloway said so\nShe lives in London .\n\nGood night\n")
    assert elmo("embed", source, output) == 0
    assert "warning" not in capsys.readouterr().err


def test_the_device_has_too_little_memory(elmo, source, output, capsys, monkeypatch):
    stop_at_batch(monkeypatch, 0, torch.OutOfMemoryError("..."))
    assert elmo("embed", source, output) == 1
    assert mentions(capsys.readouterr().err, "line 8: cpu", "8 sentences of 18 tokens")


def peak_memory(elmo, source: Path, output: Path, lines: int) -> int:
    source.write_text("".join(f"line {i // 60} {i % 60} of the text\n" for i in range(lines)))
    tracemalloc.start()
    try:
        assert elmo("embed", source, output, "--force", "--layers", "top") == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_text(elmo, source, output, monkeypatch):
    monkeypatch.setattr(embed, "SHARD_BYTES", 2000)
    peak_memory(elmo, source, output, 200)
    few, many = (peak_memory(elmo, source, output, lines) for lines in (200, 2000))
    # 1,800 lines more would take 240 kB as strings alone, and 3 MB as vectors.
    assert many - few < 140_000


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("1\tA\ta\tDET\tDT\t_\t2\tdet\t_\t_\n", [], "line 1: "),
        (">P1\nMKTAY\n", [], "line 1: "),
        (">P1\nMKTAY\n", ["--format", "fasta"], "--format fasta"),
        (">P1\nMK-T\n", ["--format", "fasta", *default_files()], "line 2: '-'"),
        (">P1\nMK\n>P1/2\nMK\n", ["--format", "fasta", *default_files()], "'P1/2'"),
    ],
)
def test_what_is_no_text_for_the_bilm(elmo, source, output, content, arguments, message, capsys):
    source.write_bytes(content.encode())
    assert elmo("embed", source, output, *arguments) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert nothing_left(output)


def test_the_initial_state_of_other_weights(elmo, source, output, tmp_path, capsys):
    start = tmp_path / "start.hdf5"
    assert elmo("calibrate", source, start) == 0
    assert elmo("embed", source, output, "--initial-state", start) == 0
    options, weights = tmp_path / "options.json", tmp_path / "weights.hdf5"
    shutil.copy(files.DEFAULT_OPTIONS, options)
    shutil.copy(files.DEFAULT_WEIGHTS, weights)
    with h5py.File(weights, "a") as file:
        bias = file["CNN_proj/b_proj"][...]
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = bias + 0.5
    other = ["--options-file", options, "--weight-file", weights]
    assert elmo("embed", source, output, "--force", "--initial-state", start, *other) == 1
    assert mentions(capsys.readouterr().err, f"{start}: ", "other weights")
    with pytest.raises(ElmoError, match="other weights"):
        Elmo(options_file=str(options), weight_file=str(weights), placement="input", initial_state=str(start))


@pytest.mark.parametrize("pool", ["none", "mean"])
def test_proteins(elmo, tmp_path, output, pool):
    source = tmp_path / "proteins.fasta"
    source.write_text(">sp|P1|A first\nMKTAY\niak\n>P2/3-7\nGSDKL*\n")
    assert elmo("embed", source, output, "--format", "fasta", "--pool", pool, *default_files()) == 0
    with h5py.File(output) as file:
        assert "sentence_to_index" not in file
        for name, residues in (("sp|P1|A", "MKTAYIAK"), ("P2/3-7", "GSDKL")):
            layers, _ = encode(default_bilm(), [list(residues)])
            expected = layers[:, 0].numpy() if pool == "none" else layers[:, 0].mean(dim=1).numpy()
            assert np.allclose(file[name][...], expected, rtol=0, atol=1e-6)


def test_what_is_not_installed_is_named(elmo, source, output, capsys, monkeypatch):
    monkeypatch.setattr(
        partial_outputs, "find_spec", lambda name: None if name == "ray" else importlib.util.find_spec(name)
    )
    assert elmo("embed", source, output, "--engine", "ray") == 1
    assert mentions(capsys.readouterr().err, "--engine ray needs ray", "make install EXTRAS='ray'")
