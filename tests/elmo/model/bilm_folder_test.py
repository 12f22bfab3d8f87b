import zipfile

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model.folders import opened_folder
from tests.errors import error_of, mentions


def make_zip(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("folders", ["", "bilm/", "runs/bilm/"])
@pytest.mark.parametrize("beside", [{}, {"__MACOSX/runs/bilm/._options.json": "x"}])
def test_a_zip_of_folders(tmp_path, folders, beside):
    names = {f"{folders}options.json": '{"a": 1}', f"{folders}weights/one": "x"}
    with opened_folder(make_zip(tmp_path / "bilm.zip", **names, **beside)) as folder:
        assert folder.json("options.json") == {"a": 1}
        assert folder.has("weights/one")


def test_members_that_climb_out_land_nowhere_else(tmp_path):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    path = make_zip(
        inside / "bilm.zip", **{"../../climbs.json": "{}", "/absolute.json": "{}", "c.json": "{}"}
    )
    before = sorted(tmp_path.rglob("*"))
    with opened_folder(path) as folder:
        unpacked = [folder.file(name) for name in ("../../climbs.json", "/absolute.json", "c.json")]
        assert len({file.parent for file in unpacked}) == 1
        assert sorted(tmp_path.rglob("*")) == before
    assert not any(file.exists() for file in unpacked)


def test_wrong_zip(tmp_path):
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(ElmoError, match=r"broken.zip:"), opened_folder(broken):
        pass
    path = make_zip(tmp_path / "bilm.zip", **{"options.json": "[1]", "vocab.txt": "x" * 100, "c.json": "{"})
    damaged = path.read_bytes().replace(b"xxxx", b"xxyx")
    (tmp_path / "damaged.zip").write_bytes(damaged)
    with opened_folder(tmp_path / "damaged.zip") as folder:
        message = error_of(ElmoError, folder.file, "vocab.txt")
    assert mentions(message, f"{tmp_path}/damaged.zip!vocab.txt", "CRC")
    with opened_folder(path) as folder:
        assert mentions(error_of(ElmoError, folder.file, "vocab.txt", max_bytes=99), "100", "99")
        assert "options.json: " in error_of(ElmoError, folder.json, "options.json")
        assert "c.json, line 1: " in error_of(ElmoError, folder.json, "c.json")
