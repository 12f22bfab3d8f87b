import json
import tarfile
from pathlib import Path

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import archive_model

from elmo_tasks.archives import open_archive
from tests.evaluation.archives import make_run


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


def changed_config(content: bytes, **model) -> bytes:
    config = json.loads(content)
    config["model"] |= model
    return json.dumps(config).encode()


WRONG_MEMBERS = {
    "other sizes": ("config.json", lambda content: changed_config(content, hidden_sizes=[5])),
    "other bytes as weights": ("weights.th", lambda content: b"no weights"),
}


@pytest.mark.parametrize(("member", "change"), WRONG_MEMBERS.values(), ids=WRONG_MEMBERS)
def test_content_that_is_no_model(run, tmp_path, member, change):
    with tarfile.open(run / "model.tar.gz") as whole:
        whole.extractall(tmp_path / "content", filter="data")
    path = tmp_path / "content" / member
    path.write_bytes(change(path.read_bytes()))
    with tarfile.open(tmp_path / "spoilt.tar.gz", "w:gz") as spoilt:
        spoilt.add(tmp_path / "content", "")
    check_refused(tmp_path / "spoilt.tar.gz")


WRONG_FILES = {
    "cut off": lambda content: content[:-200],
    "half": lambda content: content[: len(content) // 2],
    "text": lambda content: b"no archive",
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("change", WRONG_FILES.values(), ids=WRONG_FILES)
def test_no_archive(run, tmp_path, change):
    (tmp_path / "spoilt.tar.gz").write_bytes(change((run / "model.tar.gz").read_bytes()))
    check_refused(tmp_path / "spoilt.tar.gz")


def check_refused(archive: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_archive(str(archive))
    assert str(caught.value).startswith(f"{archive}: not a whole archive of a model (")
    assert "\n" not in str(caught.value)
