"""OUT.partial, and the copy there of the text that a verb reads."""

import gzip
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.staging import copy_corpus, staged_file, staging_folder
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.corpus import MAX_TOKENS
from elmo_tasks.jobs.locations import MARK
from tests.commands.texts import LINES, TEXT, feed_stdin

STRIPPED = [line.strip() for line in LINES]


def test_a_file_appears_in_the_end(tmp_path):
    output = tmp_path / "out.txt"
    with staged_file(output, force=False) as path:
        path.write_text("new")
        assert not output.exists()
    assert output.read_text() == "new"
    assert list(tmp_path.iterdir()) == [output]


def test_a_failure_leaves_what_was_there(tmp_path):
    output = tmp_path / "out.txt"
    output.write_text("old")

    def failing() -> None:
        with staged_file(output, force=True) as path:
            path.write_text("new")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_nothing_is_overwritten_without_force(tmp_path):
    output = tmp_path / "out.txt"
    output.touch()
    with (
        pytest.raises(ConfigurationError, match="--force"),
        staged_file(output, force=False),
    ):
        pass
    output.unlink()
    output.mkdir()
    with pytest.raises(ConfigurationError, match="is not a file"), staged_file(output, force=True):
        pass


def test_a_folder_is_for_one_process_alone(tmp_path):
    with (
        staging_folder(tmp_path / "out"),
        pytest.raises(ConfigurationError, match=r"out\.partial"),
        staging_folder(tmp_path / "out"),
    ):
        pass


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / "out.partial"
    (left / "vocabulary").mkdir(parents=True)
    (left / "vocab.txt").write_text("of another model")
    (left / MARK).touch()
    with staging_folder(tmp_path / "out", keep=["checkpoint"]) as folder:
        assert {path.name for path in folder.iterdir()} == {MARK}
        (folder / "checkpoint").touch()
    (left / "vectors").touch()
    (left / MARK).unlink()
    with staging_folder(tmp_path / "out", keep=["checkpoint"]) as folder:
        assert {path.name for path in folder.iterdir()} == {"checkpoint", "vectors", MARK}


def test_an_output_without_a_name(tmp_path):
    with (
        pytest.raises(ConfigurationError, match=r"found the output '\.'"),
        staging_folder(Path()),
    ):
        pass


def test_standard_output_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(ConfigurationError, match="found - for the output"),
        staged_file(Path("-"), force=True),
    ):
        pass
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path):
    """Where a verb works."""
    folder = tmp_path / "out.partial"
    folder.mkdir()
    return folder


def test_lines_by_their_number_and_in_their_order(source, folder):
    text = copy_corpus(str(source), folder)
    # The input may go now.
    source.unlink()
    assert len(text) == len(LINES)
    assert list(text) == [text[line] for line in range(len(LINES))] == STRIPPED
    assert text[-1] == STRIPPED[-1]
    assert text.tokens == sum(len(line.split()) for line in LINES)
    with pytest.raises(IndexError):
        text[len(LINES)]


def test_inputs_of_the_same_text(source, tmp_path, monkeypatch):
    (tmp_path / "in.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "gzip without its name").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "crlf.txt").write_bytes(TEXT.replace("\n", "\r\n").encode())
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (tmp_path / "no end.txt").write_bytes(TEXT.encode()[:-1])
    for part, lines in (("a", LINES[:3]), ("b", LINES[3:])):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / part).write_text("\n".join(lines) + "\n", encoding="utf-8")
    copy = tmp_path / "copy"
    copy.mkdir()
    text = copy_corpus(str(source), copy)
    digest = text.digest

    def check(name):
        text = copy_corpus(name, copy)
        assert (list(text), text.digest) == (STRIPPED, digest), name

    for name in ("in.gz", "gzip without its name", "crlf.txt", "bom.txt", "no end.txt", "folder"):
        check(str(tmp_path / name))
    for content in (TEXT.encode(), gzip.compress(TEXT.encode())):
        feed_stdin(monkeypatch, content)
        check("-")


ERRORS = {
    "not UTF-8": (b"fine\n\xc3\xa9t\xc3\xa9 \xe9t\xe9\n", ", line 2: found the byte 0xe9 at offset 11"),
    "broken gzip": (gzip.compress(b"no end of a line")[:-4], ", line 1: found Compressed file ended"),
    "unsplit": (b"fine\n" + b"w " * (MAX_TOKENS + 1), ", line 2: found 65,537 tokens, expected a sentence"),
}


@pytest.mark.parametrize(("content", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_input_and_the_line(source, tmp_path, monkeypatch, content, message):
    source.write_bytes(content)
    feed_stdin(monkeypatch, content)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, shown in ((str(source), str(source)), ("-", "standard input")):
        with pytest.raises(ElmoError) as caught:
            copy_corpus(name, copy)
        assert str(caught.value).startswith(f"{shown}{message}")
    assert not (copy / "stdin").exists()


def test_what_the_verb_writes_is_no_part_of_the_text(tmp_path, folder):
    texts = tmp_path / "texts"
    texts.mkdir()
    folder.rename(texts / "out.partial")
    # More than a write buffer, so that it would be read while it is written
    (texts / "a.txt").write_text("a b c\n" * 5000)
    for name in (str(texts), f"{texts}/*"):
        text = copy_corpus(name, texts / "out.partial")
        assert len(text) == 5000
    (texts / "out").write_text("what was there before\n")
    text = copy_corpus(str(texts), texts / "out.partial")
    assert len(text) == 5000
    with pytest.raises(ElmoError, match="out is what"):
        copy_corpus(str(texts / "out"), texts / "out.partial")
