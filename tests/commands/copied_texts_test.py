"""The copy of the text that a verb reads."""

import gzip

import pytest

from elmo_tasks.commands.arguments import copy_corpus
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.corpus import MAX_TOKENS
from tests.commands.texts import LINES, TEXT, feed_stdin

STRIPPED = [line.strip() for line in LINES]


@pytest.fixture
def folder(tmp_path):
    """Where a verb works."""
    folder = tmp_path / "out.partial/_work"
    folder.mkdir(parents=True)
    return folder


def test_inputs_of_the_same_text(source, folder, tmp_path, monkeypatch):
    (tmp_path / "in.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "gzip without its name").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "crlf.txt").write_bytes(TEXT.replace("\n", "\r\n").encode())
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (tmp_path / "no end.txt").write_bytes(TEXT.encode()[:-1])
    for part, lines in (("a", LINES[:3]), ("b", LINES[3:])):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / part).write_text("\n".join(lines) + "\n", encoding="utf-8")
    digest = copy_corpus(str(source), folder).digest

    def check(name):
        text = copy_corpus(name, folder)
        assert (list(text), text.digest) == (STRIPPED, digest), name

    for name in ("in.gz", "gzip without its name", "crlf.txt", "bom.txt", "no end.txt", "folder"):
        check(str(tmp_path / name))
    for content in (TEXT.encode(), gzip.compress(TEXT.encode())):
        feed_stdin(monkeypatch, content)
        check("-")


ERRORS = {
    "not UTF-8": (b"fine\n\xc3\xa9t\xc3\xa9 \xe9t\xe9\n", ", line 2: "),
    "broken gzip": (gzip.compress(b"no end of a line")[:-4], ", line 1: "),
    "unsplit": (b"fine\n" + b"w " * (MAX_TOKENS + 1), ", line 2: 65,537 tokens"),
}


@pytest.mark.parametrize(("content", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_input_and_the_line(source, folder, monkeypatch, content, message):
    source.write_bytes(content)
    feed_stdin(monkeypatch, content)
    for name, shown in ((str(source), str(source)), ("-", "standard input")):
        with pytest.raises(ElmoError) as caught:
            copy_corpus(name, folder)
        assert str(caught.value).startswith(f"{shown}{message}")


def test_what_the_verb_writes_is_no_part_of_the_text(tmp_path, folder):
    texts = tmp_path / "texts"
    texts.mkdir()
    folder.parent.rename(texts / "out.partial")
    # More than a write buffer, so that it would be read while it is written
    (texts / "a.txt").write_text("a b c\n" * 5000)
    for name in (str(texts), f"{texts}/*"):
        text = copy_corpus(name, texts / "out.partial/_work")
        assert len(text) == 5000
    (texts / "out").write_text("what was there before\n")
    text = copy_corpus(str(texts), texts / "out.partial/_work")
    assert len(text) == 5000
    with pytest.raises(ElmoError, match=str(texts / "out")):
        copy_corpus(str(texts / "out"), texts / "out.partial/_work")
