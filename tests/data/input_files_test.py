import gzip
import os
import pickle
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from allennlp.common import file_utils
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.input_files import InputError, input_files, read_lines


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(file_utils, "CACHE_DIRECTORY", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def tree(tmp_path):
    """A folder with files at two depths, hidden ones, and an empty subfolder."""
    for name in ("b.txt", "a.txt", "sub/c.conll", "sub/.hidden", ".git/d.txt", ".e", "a[1].txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    (tmp_path / "empty").mkdir()
    return tmp_path


def names(tree, pattern=""):
    return [path.relative_to(tree).as_posix() for path in input_files(str(tree / pattern))]


def lines(path, content):
    path.write_bytes(content)
    return list(read_lines(path))


def test_a_file(tree):
    assert input_files(tree / "a.txt") == [tree / "a.txt"]
    assert names(tree, "a[1].txt") == ["a[1].txt"]  # a name before a pattern
    assert names(tree, ".e") == [".e"]  # asked for by name


def test_a_folder(tree):
    assert names(tree) == ["a.txt", "a[1].txt", "b.txt", "sub/c.conll"]


def test_a_folder_with_links(tree):
    (tree / "link.txt").symlink_to(tree / "a.txt")
    (tree / "sub" / "loop").symlink_to(tree)
    assert names(tree) == ["a.txt", "a[1].txt", "b.txt", "link.txt", "sub/c.conll"]


def test_a_pattern(tree):
    assert names(tree, "*.txt") == ["a.txt", "a[1].txt", "b.txt"]
    assert names(tree, "**/*.conll") == ["sub/c.conll"]
    assert names(tree, "s*") == ["sub/c.conll"]  # a folder that matches
    assert names(tree, "**") == names(tree)
    assert names(tree, "[!a].txt") == ["b.txt"]


def test_a_list(tree):
    assert input_files([str(tree / "sub"), str(tree / "a.txt")]) == [tree / "sub/c.conll", tree / "a.txt"]
    with pytest.raises(InputError, match="nothing"):
        input_files([str(tree / "a.txt"), str(tree / "nothing")])
    with pytest.raises(InputError, match="found an empty list of paths, expected at least one"):
        input_files([])


def test_the_home_folder(tree, monkeypatch):
    monkeypatch.setenv("HOME", str(tree))
    assert input_files("~/a.txt") == [tree / "a.txt"]


@pytest.mark.parametrize("missing", ["nothing.txt", "*.json", "empty", "nothing.zip!a", "a!b"])
def test_nothing_there(tree, missing):
    with pytest.raises(InputError) as error:
        input_files(tree / missing)
    assert str(tree / missing) in str(error.value)
    assert isinstance(error.value, ConfigurationError)


def test_an_archive_member(tree):
    with zipfile.ZipFile(tree / "data.zip", "w") as archive:
        archive.writestr("train/x.txt", "one\n")
        archive.writestr("train/y.txt", "two\n")
    (file,) = input_files(f"{tree}/data.zip!train/x.txt")
    assert file.read_text() == "one\n"
    assert [f.name for f in input_files(f"{tree}/data.zip!train")] == ["x.txt", "y.txt"]
    with pytest.raises(InputError, match=r"data\.zip!dev.*'dev' not found"):
        input_files(f"{tree}/data.zip!dev")


@pytest.mark.parametrize("packed", ["", "gz", "xz"])
def test_an_archive_counts_as_a_folder(tree, packed):
    """A tar that is packed by gzip could be read as text, headers and all."""
    file = tree / "data.tar.x"
    with tarfile.open(file, f"w:{packed}") as archive:
        archive.add(tree / "a.txt", "one/a.txt")
        archive.add(tree / "b.txt", "b.txt")
    for path in (file, tree / "data.tar.?"):
        assert [each.read_text() for each in input_files(path)] == ["b.txt", "a.txt"]
    with pytest.raises(InputError, match=r"data\.tar\.x: found an archive among other files"):
        input_files(tree)


def test_a_damaged_archive(tree):
    (tree / "a.txt").write_bytes(os.urandom(50_000))
    with tarfile.open(tree / "data.tar.gz", "w:gz") as archive:
        archive.add(tree / "a.txt", "a.txt")
    os.truncate(tree / "data.tar.gz", 40_000)
    with pytest.raises(InputError, match=r"data\.tar\.gz: found .*, expected an archive that can"):
        input_files(tree / "data.tar.gz")


def test_texts_that_begin_as_archives(tree):
    """A broken one is told where it is read."""
    texts = {"zip.txt": b"PK is a name\n", "cut.gz": gzip.compress(b"one two\n")[:-12], "nul": b"a\0b\n"}
    for name, content in texts.items():
        (tree / name).write_bytes(content)
        assert input_files(tree / name) == [tree / name]


def test_a_url(tree, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tree))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        (file,) = input_files(f"{address}/a.txt")
        assert file.read_text() == "a.txt"
        with pytest.raises(InputError, match=f"{address}/nothing"):
            input_files(f"{address}/nothing")
        server.shutdown()


def test_a_file_url(tree):
    assert input_files(f"file://{tree}/a.txt") == [tree / "a.txt"]


def test_lines_and_their_numbers(tmp_path):
    file = tmp_path / "a"
    assert lines(file, b"") == []
    assert lines(file, b"\n") == [(1, "")]
    assert lines(file, b"a\n\nb") == [(1, "a"), (2, ""), (3, "b")]
    assert lines(file, b"a\r\nb\r\n") == [(1, "a"), (2, "b")]
    assert lines(file, b"a\rb\n\r\r\nc\r") == [(1, "a\rb"), (2, "\r"), (3, "c\r")]


@pytest.mark.parametrize("character", "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r")
def test_only_line_feeds_end_lines(tmp_path, character):
    content = f"a{character}b\nc".encode()
    assert lines(tmp_path / "a", content) == [(1, f"a{character}b"), (2, "c")]


def test_a_byte_order_mark_is_dropped(tmp_path):
    assert lines(tmp_path / "a", "\ufeffa\n\ufeffb".encode()) == [(1, "a"), (2, "\ufeffb")]


def test_gzip_by_content(tmp_path):
    assert lines(tmp_path / "a.txt", gzip.compress("\ufeffä\r\nb".encode())) == [(1, "ä"), (2, "b")]
    assert lines(tmp_path / "a.gz", b"plain") == [(1, "plain")]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_not_utf8_names_line_and_offset(tmp_path, pack):
    content = "\ufeffä\r\nb".encode() + b"\xe4\nc"
    with pytest.raises(InputError) as error:
        lines(tmp_path / "latin.txt", pack(content))
    offset = content.index(b"\xe4\nc")
    assert str(error.value) == (
        f"{tmp_path}/latin.txt, line 2: found the byte 0xe4 at offset {offset}, expected UTF-8"
    )


def test_a_broken_gzip_file(tmp_path):
    packed = gzip.compress(" ".join(map(str, range(1000))).encode())
    cut, damaged, no_header = packed[:200], packed[:-8] + bytes(8), packed[:2] + b"text"
    for broken in (cut, damaged, no_header):
        with pytest.raises(InputError, match=r"a\.gz, line 1: .*expected a readable file"):
            lines(tmp_path / "a.gz", broken)


def test_a_file_that_is_gone(tmp_path):
    with pytest.raises(InputError, match=r"gone, line 1: found No such file"):
        list(read_lines(tmp_path / "gone"))


def test_the_error_crosses_processes(tmp_path):
    error = InputError.at(tmp_path, 3, found="this", expected="that")
    assert str(error) == f"{tmp_path}, line 3: found this, expected that"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(InputError.at("x", found="a", expected="b")) == "x: found a, expected b"
