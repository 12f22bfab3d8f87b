import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from allennlp.models.archival import archive_model, load_archive
from allennlp.modules.elmo import Elmo, _ElmoBiLm, batch_to_ids

h5py = pytest.importorskip("h5py")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo.export import standardize_tokens
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, read_frozen_bilm, read_options, read_words
from tests.elmo.files import SENTENCES, VOCABULARY, changed, random_bilm, read_bilm
from tests.errors import mentions
from tests.language_model.archives import write_run
from tests.pipeline.archives import write_archive

FULL = [sentence for sentence in SENTENCES if sentence]
FILES = ["options.json", "vocab.txt", "weights.hdf5"]
by_input = pytest.mark.parametrize("input", ["characters", "words"])


def read(folder, input="characters"):
    vocabulary = folder / "vocab.txt" if input == "words" else None
    return read_bilm(folder / "options.json", folder / "weights.hdf5", vocabulary)


def layers(bilm, sentences=FULL):
    with torch.no_grad():
        return bilm(bilm.padded_ids(sentences))[0]


def change(run, **weights):
    """Writes other values into the archive of a run."""
    state = torch.load(run / "best.th")
    state.update({name.replace("__", "."): weight for name, weight in weights.items()})
    torch.save(state, run / "best.th")


@pytest.fixture
def export(elmo, tmp_path):
    """Exports the run in a folder of `tmp_path` to another; returns the exit code."""

    def run(source, output, *arguments):
        return elmo("export", tmp_path / source, tmp_path / output, *arguments)

    return run


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_ours_and_allennlp_read_what_was_trained(elmo, tmp_path, dtype):
    trained = write_run(tmp_path / "run").bilm
    archive = archive_model(tmp_path / "run")
    assert elmo("export", archive, tmp_path / "out", "--dtype", dtype) == 0
    ours = layers(read(tmp_path / "out"))
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    torch.testing.assert_close(ours, layers(trained), atol=tolerance, rtol=0)
    if dtype == "float16":
        assert not torch.equal(ours, layers(trained))
    with h5py.File(tmp_path / "out/weights.hdf5") as file:
        assert {file[name].dtype for name in ("char_embed", "CNN/W_cnn_1", "softmax/W")} == {np.dtype(dtype)}

    files = str(tmp_path / "out/options.json"), str(tmp_path / "out/weights.hdf5")
    activations = _ElmoBiLm(*files)(batch_to_ids(FULL))["activations"]
    for row, sentence in enumerate(FULL):
        for layer, found in enumerate(activations):
            expected = ours[layer, row, : len(sentence)]
            torch.testing.assert_close(found[row, 1 : len(sentence) + 1], expected, atol=1e-5, rtol=0)
    mixed = Elmo(*files, num_output_representations=1, dropout=0)(batch_to_ids(FULL))
    torch.testing.assert_close(mixed["elmo_representations"][0], ours.mean(dim=0), atol=1e-5, rtol=0)


@by_input
def test_files(export, tmp_path, capsys, input):
    trained = write_run(tmp_path / "run", input=input)
    out = tmp_path / "out"
    assert export("run", "out") == 0
    assert sorted(file.name for file in out.iterdir()) == FILES
    assert read_words(out / "vocab.txt") == VOCABULARY
    assert json.loads((out / "options.json").read_text())["n_tokens_vocab"] == len(VOCABULARY)
    with h5py.File(out / "weights.hdf5") as file:
        assert np.array_equal(file["softmax/W"], trained.softmax.weight.detach())
        assert np.array_equal(file["softmax/b"], trained.softmax.bias.detach())
    expected = layers(trained.bilm)
    torch.testing.assert_close(layers(read(out, input)), expected, atol=1e-5, rtol=0)
    assert "softmax over 13 words" in capsys.readouterr().out
    whole = read_frozen_bilm(read_options(DEFAULT_OPTIONS, out), out)
    torch.testing.assert_close(whole.encode(whole.padded_ids(FULL)), expected, atol=1e-5, rtol=0)

    assert export("run", "out") == 1
    assert mentions(capsys.readouterr().err, "options.json exists", "--force")
    (out / "notes.txt").write_text("mine")
    assert export("run", "out", "--force", "--no-softmax") == 0
    # A vocabulary is no longer of use, unless the biLM reads words; a file of the user stays.
    needed = set(FILES) if input == "words" else set(FILES) - {"vocab.txt"}
    assert {file.name for file in out.iterdir()} == needed | {"notes.txt"}
    with h5py.File(out / "weights.hdf5") as file:
        assert "softmax" not in file
    assert not (tmp_path / "out.partial").exists()


def test_no_bound_is_null(export, tmp_path):
    trained = write_run(tmp_path / "run", options=changed(cell_clip=0, proj_clip=0))
    assert export("run", "out") == 0
    lstm = json.loads((tmp_path / "out/options.json").read_text())["lstm"]
    assert (lstm["cell_clip"], lstm["proj_clip"]) == (None, None)
    exported = layers(read(tmp_path / "out"))
    torch.testing.assert_close(exported, layers(trained.bilm), atol=1e-5, rtol=0)
    files = str(tmp_path / "out/options.json"), str(tmp_path / "out/weights.hdf5")
    top = _ElmoBiLm(*files)(batch_to_ids(FULL))["activations"][-1]
    size = len(FULL[0])
    torch.testing.assert_close(top[0, 1 : size + 1], exported[-1, 0, :size], atol=1e-5, rtol=0)


def test_adaptive_softmax_is_left_out_and_said(export, tmp_path, capsys):
    write_run(tmp_path / "run", softmax={"type": "adaptive", "cutoffs": [4], "div_value": 2.0})
    assert export("run", "out") == 0
    assert "the adaptive softmax" in capsys.readouterr().out
    assert not (tmp_path / "out/vocab.txt").exists()
    read(tmp_path / "out")


def test_bilm_of_a_task(elmo, trained_ner, tmp_path, capsys):
    assert elmo("export", trained_ner / "model.tar.gz", tmp_path / "out") == 0
    assert "without a softmax" in capsys.readouterr().out
    expected = layers(load_archive(trained_ner / "model.tar.gz").model.elmo.bilm)
    torch.testing.assert_close(layers(read(tmp_path / "out")), expected, atol=1e-5, rtol=0)


def test_weights_beyond_float16(export, tmp_path, capsys):
    write_run(tmp_path / "run")
    change(tmp_path / "run", softmax__weight=torch.full((13, 6), -7e4))
    assert export("run", "out", "--dtype", "float16") == 1
    shown = capsys.readouterr().err.splitlines()[-1]
    assert shown.startswith(f"error: {tmp_path / 'run'}: ")
    assert "softmax/W" in shown
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.partial").exists()


def test_what_is_no_archive(export, tmp_path, capsys):
    (tmp_path / "text").write_text("no archive")
    (tmp_path / "other").write_text("no folder")
    for name, output, expected in [
        ("text", "out", "text"),
        (bundled("pretrained/english").resolve(), "out", "official layout"),
        ("text", "other", "other is not a folder"),
    ]:
        assert export(name, output) == 1
        assert expected in capsys.readouterr().err


@by_input
def test_standardized_token_layer(export, tmp_path, input):
    trained = write_run(tmp_path / "run", input=input).bilm
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(words) + "\n" for words in FULL))
    assert export("run", "out", "--standardize", text) == 0
    before, after = layers(trained), layers(read(tmp_path / "out", input))
    torch.testing.assert_close(after[1:], before[1:], atol=1e-5, rtol=0)
    size = after.size(-1) // 2
    tokens = torch.cat([row[: len(words), :size] for row, words in zip(after[0], FULL, strict=True)])
    torch.testing.assert_close(tokens.mean(dim=0), torch.zeros(size), atol=1e-4, rtol=0)
    torch.testing.assert_close(tokens.var(dim=0, correction=0), torch.ones(size), atol=1e-3, rtol=0)


def test_safetensors(export, tmp_path, monkeypatch):
    """They hold the same bytes, replace HDF5, and can be averaged with; neither needs h5py."""
    write_run(tmp_path / "run")
    assert export("run", "out") == 0
    of_hdf5 = read(tmp_path / "out").state_dict()
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert export("run", "out", "--force", "--format", "safetensors") == 0
    names = {"options.json", "vocab.txt", "weights.safetensors"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    whole = read_frozen_bilm(read_options(DEFAULT_OPTIONS, tmp_path / "out"), tmp_path / "out")
    assert whole.weights().keys() == of_hdf5.keys()
    assert all(torch.equal(weight, of_hdf5[name]) for name, weight in whole.weights().items())
    assert export("run", "mean", "--format", "safetensors", "--average-with", tmp_path / "out") == 0


def test_without_h5py(export, tmp_path, capsys, monkeypatch):
    write_run(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert export("run", "out") == 1
    assert mentions(capsys.readouterr().err, "out/weights.hdf5: ", "h5py")
    assert not (tmp_path / "out").exists()


@by_input
def test_the_mean_of_two_ends(export, tmp_path, input):
    last = write_run(tmp_path / "last", input=input)
    first = write_run(tmp_path / "first", input=input)
    halves = {name: weight / 2 for name, weight in first.state_dict().items() if torch.is_tensor(weight)}
    change(tmp_path / "first", **halves)
    assert export("first", "first_elmo") == 0
    assert export("last", "out", "--average-with", tmp_path / "first_elmo") == 0
    for name, share in (("out", 0.75), ("first_elmo", 0.5)):
        with h5py.File(tmp_path / name / "weights.hdf5") as file:
            expected = share * last.softmax.weight.detach()
            torch.testing.assert_close(torch.tensor(file["softmax/W"][...]), expected)
    averaged = read(tmp_path / "out", input)
    for name, weight in last.bilm.named_parameters():
        # The first row of the table is padding, which is not stored.
        rows = slice(1, None) if name == "token_encoder.embedding" else slice(None)
        mean = averaged.get_parameter(name)[rows]
        torch.testing.assert_close(mean, 0.75 * weight.detach()[rows], msg=name)


@pytest.mark.parametrize("name", ["vocab.txt", "weights.hdf5", "options.json"])
def test_no_mean_with_a_bilm_of_another_kind(export, tmp_path, capsys, name):
    write_run(tmp_path / "run")
    assert export("run", "other") == 0
    path = tmp_path / "other" / name
    if name == "vocab.txt":
        path.write_text(path.read_text(encoding="utf-8").replace("cat", "dormouse"), encoding="utf-8")
    elif name == "options.json":
        options = json.loads(path.read_text())
        path.write_text(json.dumps(options | {"lstm": options["lstm"] | {"cell_clip": 7}}))
    else:
        path.unlink()
    assert export("run", "out", "--average-with", tmp_path / "other") == 1
    assert name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("source", ["run", "official"])
def test_onnx(export, tmp_path, capsys, monkeypatch, source):
    """Writes the biLM that was trained; the file itself is that of `onnx_file_test` and of `readme_test`."""
    written = []

    def write(bilm, path):
        written.append(bilm)
        Path(path).write_bytes(b"graph")

    monkeypatch.setattr("elmo_tasks.commands.bilm.write_onnx", write)
    trained = write_run(tmp_path / "run").bilm
    export("run", "official")
    assert export(source, "out", "--format", "onnx") == 0
    assert mentions(capsys.readouterr().out, "bilm.onnx", "to 3 layers")
    (bilm,) = written
    ids = trained.padded_ids(FULL)
    torch.testing.assert_close(bilm.encode(ids), trained.encode(ids), atol=1e-5, rtol=0)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["bilm.onnx"]
    assert export(source, "out", "--format", "onnx") == 1
    assert mentions(capsys.readouterr().err, "bilm.onnx exists", "--force")


def test_onnx_of_a_task(export, tmp_path, capsys, monkeypatch):
    """Writes the whole model, as `standalone/folder_test` tests it, and over no file of the user."""
    write_archive(tmp_path / "run", "snli")

    def write(archive, folder):
        names = ["model.onnx", "predict.py"]
        for name in names:
            (folder / name).write_text(type(archive.model).__name__)
        return names

    with monkeypatch.context() as patch:
        patch.setattr("elmo_tasks.standalone.folder.write_model", write)
        (tmp_path / "out").mkdir()
        (tmp_path / "out/predict.py").write_text("mine")
        assert export("run", "out", "--format", "onnx") == 1
        assert mentions(capsys.readouterr().err, "predict.py exists", "--force")
        assert (tmp_path / "out/predict.py").read_text() == "mine"
        assert export("run", "out", "--format", "onnx", "--force") == 0
    assert mentions(capsys.readouterr().out, "model.onnx, predict.py", "python", "out/predict.py INPUT")
    assert (tmp_path / "out/model.onnx").read_text() == "SnliModel"

    write_archive(tmp_path / "coref", "coref")
    monkeypatch.setattr("elmo_tasks.elmo.export._NEEDED", ())
    assert export("coref", "none", "--format", "onnx") == 1
    shown = capsys.readouterr().err.splitlines()[-1]
    assert mentions(shown, f"error: {tmp_path / 'coref'}: ", "elmo_ner, elmo_sst", "no CorefModel")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("sizes", "text", "message"),
    [
        ({}, [[], []], "0 distinct words"),
        ({}, [["the", "the"], ["the"]], "1 distinct words"),
        ({"projection_dim": 18}, [["the", "cat"]], "no projection"),
    ],
)
def test_what_cannot_be_standardized(sizes, text, message):
    with pytest.raises(ElmoError, match=message):
        standardize_tokens(random_bilm(**sizes), text)
