"""The graph of a biLM, in PyTorch and in onnxruntime, against the engine."""

import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import onnx_file
from elmo_tasks.elmo.onnx_file import Layers, dynamic_shapes, write_onnx
from tests.elmo.files import SENTENCES, frozen, make_word_files, random_bilm, read_frozen

BATCHES = [SENTENCES, [["Yes"]], [["the", "mat", "."]] * 5]


def test_torch_export():
    bilm = random_bilm()
    model = Layers(bilm)
    graph = torch.export.export(model, (model.example(),), dynamic_shapes=dynamic_shapes()).module()
    for sentences in BATCHES:
        ids = bilm.padded_ids(sentences).long()
        torch.testing.assert_close(graph(ids), frozen(bilm).encode(ids), atol=1e-5, rtol=0)


def test_onnx(tmp_path):
    pytest.importorskip("onnxscript", reason="ONNX is not installed: make install EXTRAS='onnx'")
    runtime = pytest.importorskip("onnxruntime")
    bilm = frozen(random_bilm(n_layers=1, max_characters_per_token=6))
    write_onnx(bilm, tmp_path / "bilm.onnx")
    session = runtime.InferenceSession(tmp_path / "bilm.onnx")
    for sentences in BATCHES:
        ids = bilm.padded_ids(sentences).long()
        (layers,) = session.run(["layers"], {"ids": ids.numpy()})
        torch.testing.assert_close(torch.from_numpy(layers), bilm.encode(ids), atol=1e-5, rtol=0)


def test_what_cannot_be_written(tmp_path, monkeypatch):
    bilm = read_frozen(**make_word_files(tmp_path))
    monkeypatch.setattr(onnx_file, "_NEEDED", ())
    with pytest.raises(ElmoError, match=r"word_ids.*character_ids"):
        write_onnx(bilm, tmp_path / "bilm.onnx")
    monkeypatch.setattr(onnx_file, "_NEEDED", ("torch", "no_such_package"))
    with pytest.raises(ElmoError, match="no_such_package"):
        write_onnx(bilm, tmp_path / "bilm.onnx")
    assert not (tmp_path / "bilm.onnx").exists()
