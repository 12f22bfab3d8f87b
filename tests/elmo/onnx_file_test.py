"""The graph of a biLM, in PyTorch and in onnxruntime, against the engine."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import allennlp.commands
import pytest
import torch

import elmo_tasks
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import export
from elmo_tasks.elmo.export import write_onnx
from elmo_tasks.elmo.model.weight_file import write_weights
from tests.conftest import command_process
from tests.elmo.files import SENTENCES, frozen, make_word_files, random_bilm, read_frozen
from tests.readme_test import TEXTS, blocks, commands

pytestmark = pytest.mark.slow

BATCHES = [SENTENCES, [["Yes"]], [["the", "mat", "."]] * 5]


def example(word: str) -> str:
    """The example of the pages that has this word."""
    (text,) = (block for page in TEXTS for block in blocks("python", page) if word in block)
    return text


def test_torch_export(tmp_path, monkeypatch):
    """The example of the pages, with a biLM that is quick to trace."""
    bilm = random_bilm()
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    monkeypatch.setattr(elmo_tasks, "ElmoEmbedder", lambda: SimpleNamespace(bilm=frozen(bilm)))
    exec(example("torch.export"), {})
    graph = torch.export.load("runs/bilm.pt2").module()
    for sentences in BATCHES:
        ids = bilm.padded_ids(sentences).long()
        torch.testing.assert_close(graph(ids), frozen(bilm).encode(ids), atol=1e-5, rtol=0)


def test_onnx(tmp_path, monkeypatch, capsys):
    """The command and the example of the pages, with such a biLM."""
    pytest.importorskip("onnxscript", reason="ONNX is not installed: make install EXTRAS='onnx'")
    runtime = pytest.importorskip("onnxruntime")
    bilm = random_bilm()
    monkeypatch.chdir(tmp_path)
    folder = Path("pretrained/english")
    folder.mkdir(parents=True)
    (folder / "options.json").write_text(json.dumps(bilm.options.to_json()))
    write_weights(folder / "weights.safetensors", bilm.options, bilm.state_dict())
    (words,) = (words for page in TEXTS for words in commands(page) if "runs/onnx" in words)
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)
    monkeypatch.setattr(sys, "argv", words)
    with command_process():
        allennlp.commands.main(prog="allennlp")
    exec(example("onnxruntime"), {})
    assert capsys.readouterr().out.endswith("(3, 2, 2, 12)\n")
    session = runtime.InferenceSession("runs/onnx/bilm.onnx")
    for sentences in BATCHES:
        ids = bilm.padded_ids(sentences).long()
        (layers,) = session.run(["layers"], {"ids": ids.numpy()})
        torch.testing.assert_close(torch.from_numpy(layers), frozen(bilm).encode(ids), atol=1e-5, rtol=0)


def test_what_cannot_be_written(tmp_path, monkeypatch):
    bilm = read_frozen(**make_word_files(tmp_path))
    monkeypatch.setattr(export, "_NEEDED", ())
    with pytest.raises(ElmoError, match=r"character_ids.*word_ids"):
        write_onnx(bilm, tmp_path / "bilm.onnx")
    monkeypatch.setattr(export, "_NEEDED", ("torch", "no_such_package"))
    with pytest.raises(ElmoError, match="no_such_package"):
        write_onnx(bilm, tmp_path / "bilm.onnx")
    assert not (tmp_path / "bilm.onnx").exists()
