"""Archives that are whole, and damaged ones; tests/robustness/archives_test.py has attacks."""

import io
import json
import shutil
import socket
import sys
import tarfile
from unittest.mock import Mock

import pytest
import torch
from allennlp.models import Model, archival

from elmo_tasks.archives import ArchiveError, open_archive
from tests.compat.stock_test import stock


def test_the_folder_of_a_run_or_its_archive(run):
    weights = torch.load(run / "best.th")
    for path, device in ((run, "cpu"), (run / "model.tar.gz", torch.device("cpu"))):
        opened = open_archive(str(path), device)
        assert opened.config["model"]["type"] == "elmo_ner"
        assert weights.keys() == opened.model.state_dict().keys()
        assert all(torch.equal(weights[name], part) for name, part in opened.model.state_dict().items())


def test_the_network_is_as_before(run, tmp_path):
    before = socket.getaddrinfo
    open_archive(run)
    with pytest.raises(OSError, match="nowhere"):
        open_archive(tmp_path / "nowhere")
    assert socket.getaddrinfo is before


def test_nothing_is_there(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        open_archive(str(tmp_path / "nowhere"))


def with_other_sizes(content: bytes) -> bytes:
    config = json.loads(content)
    config["model"]["hidden_sizes"] = [5]
    return json.dumps(config).encode()


def with_a_key_of_allennlp_1(content: bytes) -> bytes:
    config = json.loads(content)
    config["dataset_reader"] = {"type": "sequence_tagging", "lazy": False}
    return json.dumps(config).encode()


def with_another_name(content: bytes) -> bytes:
    weights = torch.load(io.BytesIO(content))
    weights["other"] = weights.pop("tag_projection.weight")
    changed = io.BytesIO()
    torch.save(weights, changed)
    return changed.getvalue()


@pytest.mark.parametrize(
    ("member", "change", "names"),
    [
        ("config.json", with_other_sizes, "size mismatch for "),
        ("config.json", with_a_key_of_allennlp_1, "lazy"),
        ("weights.th", with_another_name, "['tag_projection.weight']; Unexpected keys: ['other']"),
        ("weights.th", lambda content: b"no weights", ""),
        (None, lambda content: content[: len(content) // 2], ""),
        (None, lambda content: b"", ""),
    ],
)
def test_content_that_is_no_model(run, tmp_path, member, change, names):
    archive = tmp_path / "spoilt.tar.gz"
    if member is None:
        archive.write_bytes(change((run / "model.tar.gz").read_bytes()))
    else:
        with tarfile.open(run / "model.tar.gz") as whole:
            whole.extractall(tmp_path / "content", filter="data")
        path = tmp_path / "content" / member
        path.write_bytes(change(path.read_bytes()))
        with tarfile.open(archive, "w:gz") as spoilt:
            spoilt.add(tmp_path / "content", "")
    with pytest.raises(ArchiveError) as caught:
        open_archive(str(archive))
    assert caught.value.where == str(archive)
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_with_the_commas_of_jsonnet(run, tmp_path):
    """As one of allennlp-models' own archives has it. A comma in a text is none of them."""
    shutil.copytree(run, tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    text = config.read_text().strip()
    config.write_text('{"other": [", }", "\\",]",\n],' + text[1:-1] + ", }")
    assert open_archive(tmp_path / "run").config["other"] == [", }", '",]']


def test_weights_that_are_none(run, tmp_path):
    (tmp_path / "weights.th").write_text("{}")
    with pytest.raises(ArchiveError):
        open_archive(str(run), weights_file=str(tmp_path / "weights.th"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_archive(str(run), weights_file=str(tmp_path / "nowhere.th"))


def test_too_little_memory(run, monkeypatch):
    monkeypatch.setattr(Model, "load", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory.")))
    with pytest.raises(ArchiveError, match="memory to open it"):
        open_archive(run)


class TestUnpacking:
    @pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself refuses it")
    @pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")
    def test_stock_writes_outside(self, tmp_path, monkeypatch):
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("../../escaped"))
        with stock(archival).extracted_archive(str(tmp_path / "model.tar.gz")):
            assert (tmp_path / "escaped").exists()
