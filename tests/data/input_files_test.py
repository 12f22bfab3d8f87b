import gzip
import os
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from allennlp.common import file_utils
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.input_files import (
    InputError,
    input_files,
    likely_encoding,
    parse_json,
    read_json,
    read_json_lines,
    read_lines,
)
from tests.errors import error_of, mentions

NO_LINE_ENDS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(file_utils, "CACHE_DIRECTORY", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def tree(tmp_path):
    """A folder with files at two depths, hidden files, a pipe, links, a loop of them, and an empty folder."""
    for name in ("b.txt", "a.txt", "sub/c.conll", "sub/.hidden", ".git/d.txt", ".e", "a[1].txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("a.txt", "a.txt"),
        ("a[1].txt", "a[1].txt"),  # a name before a pattern
        (".e", ".e"),  # hidden, but asked for by name
        ("", "a.txt a[1].txt b.txt link.txt sub/c.conll"),
        ("[abl]*.txt", "a.txt a[1].txt b.txt link.txt"),
        ("[!apz]*.txt", "b.txt link.txt"),
        ("s*/*.conll", "sub/c.conll"),
    ],
)
def test_files_folders_and_patterns(tree, path, files, monkeypatch):
    expected = [tree / name for name in files.split()]
    assert input_files(tree / path) == input_files(str(tree / path)) == expected
    assert input_files([str(tree / path), str(tree / "b.txt")]) == [*expected, tree / "b.txt"]
    monkeypatch.setenv("HOME", str(tree))
    assert input_files(f"~/{path}") == expected


@pytest.mark.parametrize("missing", ["nothing.txt", "*.json", "empty", "nothing.zip!a", "a!b"])
def test_nothing_there(tree, missing):
    for path in (tree / missing, [str(tree / "a.txt"), str(tree / missing)]):
        assert str(tree / missing) in error_of(ConfigurationError, input_files, path)


def test_a_document_of_an_office(tmp_path):
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(InputError, match=r"book\.xlsx: .*office"):
        input_files(f"{tmp_path}/book.xlsx")


def test_an_archive_member(tree):
    with zipfile.ZipFile(tree / "data.zip", "w") as archive:
        archive.writestr("train/x.txt", "one\n")
        archive.writestr("train/y.txt", "two\n")
    for member in (f"{tree}/data.zip!train/x.txt", f"({tree}/data.zip)#train/x.txt"):
        (file,) = input_files(member)
        assert file.read_text() == "one\n"
    assert [f.name for f in input_files(f"{tree}/data.zip!train")] == ["x.txt", "y.txt"]
    with pytest.raises(InputError, match=r"data\.zip!dev.*'dev'"):
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
    with pytest.raises(InputError, match=r"data\.tar\.x:"):
        input_files(tree)


def test_another_archive_of_equal_size_and_time_is_read(tree):
    file = tree / "data.zip"
    for content in ("one", "two"):
        with zipfile.ZipFile(tree / "new.zip", "w") as archive:
            archive.writestr("a.txt", content)
        os.utime(tree / "new.zip", (0, 0))
        (tree / "new.zip").replace(file)
        assert [each.read_text() for each in input_files(file)] == [content]


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
    assert input_files(f"file://{tree}/a.txt") == [tree / "a.txt"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n\r\r\nc\r", ["a\rb", "\r", "c\r"]),
        (f"a{NO_LINE_ENDS}b\nc".encode(), [f"a{NO_LINE_ENDS}b", "c"]),
        ("\ufeffa\n\ufeffb".encode(), ["a", "\ufeffb"]),
        (gzip.compress("\ufeffä\r\nb".encode(), mtime=0), ["ä", "b"]),
    ],
)
def test_numbered_lines(tmp_path, content, lines):
    (tmp_path / "a").write_bytes(content)
    assert list(read_lines(tmp_path / "a")) == list(enumerate(lines, start=1))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_not_utf8_names_line_and_offset(tmp_path, pack):
    content = "\ufeffä\r\nb".encode() + b"\xe4\nc"
    (tmp_path / "latin.txt").write_bytes(pack(content))
    message = error_of(InputError, list, read_lines(tmp_path / "latin.txt"))
    assert mentions(message, f"{tmp_path}/latin.txt, line 2: ", "0xe4", f" {len(content) - 3}")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("El señor López vive en La Coruña, España.\n", "cp1252"),
        ("据新华社报道国家主席在北京会见了来访的法国总统。\n", "gb18030"),
        ("Ann O\r\n", "utf-16"),
    ],
)
def test_other_encodings(tmp_path, text, encoding):
    (tmp_path / "a").write_bytes((text * 3).encode(encoding))
    with pytest.raises(InputError, match=f"a, line 1: .*{encoding}.*`encoding`"):
        list(read_lines(tmp_path / "a", encoding="utf-8"))
    assert list(read_lines(tmp_path / "a", encoding=encoding)) == [(i, text.rstrip()) for i in (1, 2, 3)]
    with pytest.raises(InputError, match=r"a, line 1: .*ascii"):
        list(read_lines(tmp_path / "a", encoding="ascii"))


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"a\n" * 70_000 + "café x\n".encode("latin-1"), "cp1252"),
        ("une façon, café \x81\n".encode("latin-1"), "latin-1"),
        ("a\ncafé\n".encode(), "utf-8"),
        ("привет москва\n".encode("cp1251") * 3, "cp1251"),
    ],
)
def test_the_likely_encoding_is_that_of_all_lines(tmp_path, content, encoding):
    (tmp_path / "a").write_bytes(content)
    assert likely_encoding(tmp_path / "a") == encoding


def test_unreadable_files(tmp_path):
    packed = gzip.compress(" ".join(map(str, range(1000))).encode())
    latin = gzip.compress("é".encode("latin-1") * 10_000)
    for broken in (packed[:200], packed[:-8] + bytes(8), packed[:2] + b"text", latin[:-9]):
        (tmp_path / "a.gz").write_bytes(broken)
        with pytest.raises(InputError, match=r"a\.gz, line 1: "):
            list(read_lines(tmp_path / "a.gz", encoding="utf-8"))
    with pytest.raises(InputError, match=r"gone, line 1:"):
        list(read_lines(tmp_path / "gone"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_json_values_with_their_lines(tmp_path, pack):
    (tmp_path / "a").write_bytes(pack(b'{"a": 1}\n\n \t\n[2]\n'))
    assert list(read_json_lines(tmp_path / "a")) == [(1, {"a": 1}), (4, [2])]
    (tmp_path / "b").write_bytes(pack(b'{"a":\n 1}\n'))
    assert read_json(tmp_path / "b") == {"a": 1}


def test_errors_of_json_name_file_line_and_column(tmp_path):
    (tmp_path / "a").write_text('{}\n{"a": }\n')
    with pytest.raises(InputError, match=r"a, line 2: .*column 7\)"):
        list(read_json_lines(tmp_path / "a"))
    (tmp_path / "b").write_text('{"a":\n\n x}\n')
    with pytest.raises(InputError, match=r"b, line 3: .*column 2\)"):
        read_json(tmp_path / "b")
    with pytest.raises(InputError, match="c, line 11:"):
        parse_json("[\n", "c", 10)
