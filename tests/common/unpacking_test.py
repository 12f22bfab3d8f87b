import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path, PureWindowsPath

import pytest
from allennlp.common import file_utils

from elmo_tasks.common import files
from elmo_tasks.data.input_files import InputError, input_files
from tests.errors import error_of, mentions

# The errors that `unpack` documents.
DAMAGED = (ValueError, OSError, EOFError, tarfile.TarError, zlib.error)
CONTENT = b"one\ntwo\n" * 40


def write_tar(path: Path, *members: tuple[str, bytes, str], mode: str = "w:gz") -> Path:
    """Writes a tar of members: name, type, and the target of a link."""
    with tarfile.open(path, mode) as archive:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            member.size = len(CONTENT) if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(CONTENT))
    return path


def file(name: str) -> tuple[str, bytes, str]:
    return name, tarfile.REGTYPE, ""


def link(name: str, target: str) -> tuple[str, bytes, str]:
    return name, tarfile.SYMTYPE, target


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def folder(tmp_path):
    """A folder to unpack to, deep in an empty folder."""
    path = tmp_path / "a/b/c/d/e"
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    "members",
    [
        [link("s", "."), link("t", "s/s/s/s/../../../.."), file("t/escaped")],
        [link("s", "sub/.."), file("x")],
        [link("s", ".."), file("s/escaped")],
        [link("s", "/tmp"), file("s/escaped")],
        [link("a/b/s", "../../../escaped")],
        [file("../escaped")],
        [file("a/../../escaped")],
        [file("/escaped")],
        [("hard", tarfile.LNKTYPE, "../secret")],
        [("z", tarfile.LNKTYPE, "a"), file("a")],
        [file("x/y"), link("z", "x/y")],
        [file("d/e/x"), link("d/e/l", "../x"), ("m", tarfile.LNKTYPE, "d/e/l"), file("m")],
        [("pipe", tarfile.FIFOTYPE, "")],
        [("device", tarfile.CHRTYPE, "")],
    ],
    ids=str,
)
def test_nothing_is_written_outside(tmp_path, folder, members):
    archive = write_tar(tmp_path / "x.tar.gz", *members)
    before = below(tmp_path)
    assert mentions(error_of(ValueError, files.unpack, archive, folder), str(archive), "not unpacked")
    assert all(name.startswith("a/b/c/d/e/") for name in below(tmp_path) - before)


@pytest.mark.parametrize("name", [r"..\escaped", r"a\..\escaped", r"\escaped", "C:escaped", r"C:\escaped"])
def test_nothing_is_written_outside_on_windows(tmp_path, folder, monkeypatch, name):
    monkeypatch.setattr(files, "PurePath", PureWindowsPath)
    with pytest.raises(ValueError, match="not unpacked"):
        files.unpack(write_tar(tmp_path / "x.tar.gz", file(name)), folder)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_files_their_second_names_and_folders_are_taken(tmp_path, folder, mode):
    members = [file("x/y"), ("empty", tarfile.DIRTYPE, ""), ("z", tarfile.LNKTYPE, "x/y")]
    members.append(("x/w", tarfile.LNKTYPE, "z"))
    files.unpack(write_tar(tmp_path / "x", *members, mode=mode), folder)
    assert {(folder / name).read_bytes() for name in ("x/y", "z", "x/w")} == {CONTENT}
    assert (folder / "empty").is_dir()


def test_the_old_form_of_xz(tmp_path, folder):
    """As `xz --format=lzma` writes it."""
    archive = write_tar(tmp_path / "x.tar", file("x"), mode="w")
    archive.write_bytes(lzma.compress(archive.read_bytes(), format=lzma.FORMAT_ALONE))
    assert files.is_archive(archive)
    files.unpack(archive, folder)
    assert (folder / "x").read_bytes() == CONTENT
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises((EOFError, tarfile.TarError)):
        files.unpack(archive, folder)


def test_a_damaged_header_in_a_plain_tar_is_not_its_end(tmp_path, folder):
    archive = write_tar(tmp_path / "x.tar", file("x"), file("y"), mode="w")
    content = bytearray(archive.read_bytes())
    content[1024] ^= 1
    archive.write_bytes(content)
    with pytest.raises(ValueError, match="at byte 1024"):
        files.unpack(archive, folder)


def test_bombs(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(files, "MAX_MEMBERS", 1000)
    member = tarfile.TarInfo("zeros")
    member.size = 1 << 23
    archive = tmp_path / "x"
    with tarfile.open(archive, "w:gz", compresslevel=9) as tar:
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    with pytest.raises(ValueError, match=r"1.*8,388,608.*'zeros'"):
        files.unpack(archive, folder)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as content:
        content.writestr("zeros", bytes(1 << 23))
    with pytest.raises(ValueError, match=r"8,388,608.*'zeros'"):
        files.unpack(archive, folder)
    write_tar(archive, *(file(str(number)) for number in range(1001)))
    with pytest.raises(ValueError, match="1,001 members"):
        files.unpack(archive, folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1 << 20


def test_second_names_count_as_what_they_become(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 4 * len(CONTENT))
    monkeypatch.setattr(files, "MAX_TIMES", 0)
    names = (("x" * number, tarfile.LNKTYPE, "a") for number in range(1, 9))
    with pytest.raises(ValueError, match="not unpacked"):
        files.unpack(write_tar(tmp_path / "x", file("a"), *names), folder)


def test_a_header_that_wants_all_memory(tmp_path, folder):
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 1 << 33
    (tmp_path / "x").write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT)))
    # Newer Pythons read it in small pieces, and find that there is none.
    with pytest.raises((ValueError, tarfile.ReadError), match=r"8,589,934,592|empty header"):
        files.unpack(tmp_path / "x", folder)


def test_a_zip_that_climbs(tmp_path, folder):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as content:
        content.writestr("../escaped", "x")
    with pytest.raises(ValueError, match=r"'\.\./escaped'"):
        files.unpack(tmp_path / "x.zip", folder)


def test_a_tar_that_ends_with_a_zip(tmp_path, folder):
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as content:
        content.writestr("inner.txt", "x")
    with tarfile.open(tmp_path / "x.tar", "w") as whole:
        whole.add(tmp_path / "inner.zip", "z.zip")
    files.unpack(tmp_path / "x.tar", folder)
    assert [path.name for path in folder.iterdir()] == ["z.zip"]


def test_a_data_archive_that_climbs(tmp_path, monkeypatch):
    """Links lead outside, although no name does."""
    monkeypatch.setattr(file_utils, "CACHE_DIRECTORY", str(tmp_path / "1/2/3/4/cache"))
    archive = write_tar(
        tmp_path / "data.tar.gz", link("s", "."), link("t", "s/s/s/s/../../../.."), file("t/escaped")
    )
    with pytest.raises(InputError, match=r"data.tar.gz!x: .*'s'"):
        input_files(f"{archive}!x")
    assert not list(tmp_path.rglob("escaped"))
    assert not list((tmp_path / "1/2/3/4/cache").glob("tmp*"))
    write_tar(archive, file("x"))
    (unpacked,) = input_files(f"{archive}!x")
    assert unpacked.read_bytes() == CONTENT
    for outside in ("../x", "..", "/etc/passwd"):
        with pytest.raises(InputError, match="not found in"):
            input_files(f"{archive}!{outside}")


def test_sparse_files_count_as_what_they_become(tmp_path, folder):
    """GNU's header of a file of 1 TiB without any stored content."""
    member = tarfile.TarInfo("x")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = b"\x80\0\0\0" + struct.pack(">Q", 1 << 40)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    (tmp_path / "x").write_bytes(gzip.compress(bytes(header[:512]) + bytes(1024)))
    with pytest.raises(ValueError, match="1,099,511,627,776 bytes"):
        files.unpack(tmp_path / "x", folder)
