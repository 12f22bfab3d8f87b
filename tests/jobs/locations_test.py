import os
import re
import socket

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs.locations import Folder, exists, input_size, input_sources, open_source, texts_among


@pytest.fixture
def tree(tmp_path):
    for name in ("a.txt", "deep/b.txt", "deep/.hidden", "c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_store_is_listed_as_a_disk_is(tree):
    for pattern, names in (("", ["a.txt", "c.md", "deep/b.txt"]), ("/a.txt", ["a.txt"]), ("/*.md", ["c.md"])):
        sources = input_sources(f"file://{tree}{pattern}")
        assert sources == [f"file://{tree}/{name}" for name in names]
        assert sources == [f"file://{file}" for file in input_sources(f"{tree}{pattern}")]
    for source in input_sources(f"file://{tree}"):
        with open_source(source, "nowhere") as file:
            file.seek(2)
            assert source.endswith(file.read().decode())
        assert input_size([source], "nowhere") == os.path.getsize(source.removeprefix("file://"))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_stands_beside_parquet_is_no_text(tree, scheme):
    for name in ("_plan.json", "deep/_metadata", "deep/part-0.parquet"):
        (tree / name).write_text(name)
    names = ["_plan.json", "a.txt", "c.md", "deep/b.txt", "deep/part-0.parquet"]

    def texts(path: str, *outputs: str) -> list[str]:
        return texts_among(input_sources(path), path, outputs)

    assert texts(f"{scheme}{tree}") == [f"{scheme}{tree}/{name}" for name in names]
    assert texts(f"{scheme}{tree}/deep/_metadata") == [f"{scheme}{tree}/deep/_metadata"]
    # Nor is what the command writes, however its path is spelt
    (tree / "link").symlink_to(tree / "deep")
    assert texts(f"{scheme}{tree}", f"file://{tree}/link", f"{tree}/c.md") == [
        f"{scheme}{tree}/{name}" for name in names[:2]
    ]
    with pytest.raises(ElmoError, match="what this command writes"):
        texts(f"{scheme}{tree}/deep", f"{tree}")


def test_names_that_a_uri_does_not_hold_as_they_are(tmp_path):
    for name in ("my text.txt", "Bücher", "50%25", "a#b", "q?x", "day=1"):
        (tmp_path / name).write_text(name)
    sources = input_sources(f"file://{tmp_path}")
    contents = []
    for source in sources:
        with open_source(source, "nowhere") as file:
            contents.append(file.read().decode())
        assert input_size([source], "nowhere") == len(contents[-1].encode())
    assert sorted(contents) == sorted(path.name for path in tmp_path.iterdir())
    assert f"file://{tmp_path}/day=1" in sources


def test_what_cannot_be_read(tree):
    for path in (f"file://{tree}/*.pdf", f"file://{tree}/nothing", f"{tree}/nothing"):
        with pytest.raises(ElmoError, match=f"^{re.escape(path)}: "):
            input_sources(path)
    with pytest.raises(ElmoError, match=r"a\.txt is a file"):
        Folder(str(tree / "a.txt")).names()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_file_appears_when_it_is_whole(tmp_path, scheme):
    folder = Folder(f"{scheme}{tmp_path}/out")
    assert folder.names() == set()
    folder.create()
    for content in (b"old", b"new"):
        with folder.writing("x") as file:
            file.write(content)
            (partial,) = folder.names() - {"x"}
            assert partial.startswith("_x.")
            assert partial.endswith(f".{os.getpid()}")
        assert folder.names() == {"x"}
        assert folder.read("x") == content

    def stop():
        with folder.writing("x") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert folder.read("x") == b"new"
    with folder.writing("y", to=f"{scheme}{tmp_path}/y") as file:
        file.write(b"beside")
    assert (tmp_path / "y").read_bytes() == b"beside"
    assert exists(f"{scheme}{tmp_path}/y")
    folder.remove(["x", "gone"])
    assert folder.names() == set()
    folder.remove_itself()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("target", ["thesis/text", "thesis", "thesis/new"])
def test_a_link_is_replaced_and_not_followed(tmp_path, target):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/text").write_text("mine")
    name = f"_x.{socket.gethostname()}.{os.getpid()}"
    for link in (name, "x"):
        (tmp_path / link).symlink_to(target)
    with Folder(str(tmp_path)).writing("x") as file:
        file.write(b"new")
    assert [(path.name, path.read_text()) for path in (tmp_path / "thesis").iterdir()] == [("text", "mine")]
    assert (tmp_path / "x").read_text() == "new"


@pytest.mark.parametrize("uri", ["memory://out", "hdfs://host/out", "abfs://box@account/out"])
def test_another_store_is_no_folder_of_the_disk(uri):
    with pytest.raises(ElmoError, match="s3:// or gs://"):
        Folder(uri)
