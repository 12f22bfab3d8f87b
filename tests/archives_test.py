import errno
import io
import json
import tarfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import archive_model

from elmo_tasks.compat import archives
from elmo_tasks.compat.archives import open_archive
from tests.evaluation.archives import make_run

NO_ARCHIVE = "not a whole archive of a model ("


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The folder of a run, with its archive."""
    folder = make_run(tmp_path_factory.mktemp("run") / "run", None)
    archive_model(folder)
    return folder


def test_the_folder_of_a_run_or_its_archive(run):
    weights = torch.load(run / "best.th")
    for place in (run, run / "model.tar.gz"):
        opened = open_archive(str(place))
        assert opened.config["model"]["type"] == "elmo_ner"
        assert weights.keys() == opened.model.state_dict().keys()
        assert all(torch.equal(weights[name], part) for name, part in opened.model.state_dict().items())


def test_nothing_is_there(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        open_archive(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_too_little_memory(run, error, monkeypatch):
    monkeypatch.setattr(archives, "_load_archive", Mock(side_effect=error))
    with pytest.raises(ConfigurationError) as raised:
        open_archive(run)
    assert raised.value.message == f"{run}: found too little memory to open it"


def changed_config(content: bytes, **model) -> bytes:
    config = json.loads(content)
    config["model"] |= model
    return json.dumps(config).encode()


def rename_scores(content: bytes) -> bytes:
    weights = torch.load(io.BytesIO(content))
    weights["other"] = weights.pop("tag_projection.weight")
    changed = io.BytesIO()
    torch.save(weights, changed)
    return changed.getvalue()


def other_weights(*tensors: str) -> str:
    return "found weights that do not fit the model of its config: " + "; ".join(tensors)


CHANGED_MEMBERS = {
    "other sizes": (
        "config.json",
        lambda content: changed_config(content, hidden_sizes=[5]),
        other_weights("size mismatch for "),
    ),
    "another name": (
        "weights.th",
        rename_scores,
        other_weights("Missing keys: ['tag_projection.weight']", "Unexpected keys: ['other']"),
    ),
    "other bytes as weights": ("weights.th", lambda content: b"no weights", NO_ARCHIVE),
}


@pytest.mark.parametrize(("member", "change", "fault"), CHANGED_MEMBERS.values(), ids=CHANGED_MEMBERS)
def test_content_that_is_no_model(run, tmp_path, member, change, fault):
    with tarfile.open(run / "model.tar.gz") as whole:
        whole.extractall(tmp_path / "content", filter="data")
    path = tmp_path / "content" / member
    path.write_bytes(change(path.read_bytes()))
    with tarfile.open(tmp_path / "spoilt.tar.gz", "w:gz") as spoilt:
        spoilt.add(tmp_path / "content", "")
    check_refused(tmp_path / "spoilt.tar.gz", fault)


def test_weights_that_are_none(run, tmp_path):
    (tmp_path / "weights.th").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"PyTorch did not write its weights, or the --weights-file"):
        open_archive(str(run), weights_file=str(tmp_path / "weights.th"))
    with pytest.raises(ConfigurationError, match="found a folder, expected a file of weights"):
        open_archive(str(run), weights_file=str(tmp_path))


WRONG_FILES = {
    "cut off": lambda content: content[:-200],
    "half": lambda content: content[: len(content) // 2],
    "text": lambda content: b"no archive",
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("change", WRONG_FILES.values(), ids=WRONG_FILES)
def test_no_archive(run, tmp_path, change):
    (tmp_path / "spoilt.tar.gz").write_bytes(change((run / "model.tar.gz").read_bytes()))
    check_refused(tmp_path / "spoilt.tar.gz", NO_ARCHIVE)


def check_refused(archive: Path, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_archive(str(archive))
    assert str(caught.value).startswith(f"{archive}: {fault}")
    assert "\n" not in str(caught.value)
