import gzip
from itertools import pairwise
from random import Random

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Token
from allennlp.data.fields import LabelField, ListField, TextField

from elmo_tasks.data import text_stream
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.text_stream import (
    LongSentences,
    Protein,
    SentenceSplitter,
    file_paragraphs,
    file_sentences,
    instance_sentences,
    read_fasta,
    shuffled,
)
from tests.errors import error_of

MIXED = "한국어 문장 , ελληνικά и русский 😀 \u3000 words\n\n다음 문장\r\nlast"


def test_lines(tmp_path):
    plain, packed, empty = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    plain.write_bytes(MIXED.encode())
    packed.write_bytes(gzip.compress(MIXED.encode()))
    empty.write_bytes(b"")
    first = ["한국어", "문장", ",", "ελληνικά", "и", "русский", "😀", "words"]
    expected = [first, None, ["다음", "문장"], ["last"], None]
    for files in ([plain], [packed], [plain, empty]):
        found = [line and line.split() for line in file_sentences(files)]
        assert found == expected + [None] * (len(files) - 1)
    plain.write_bytes("여기\n".encode() + "문장".encode()[:-1])
    with pytest.raises(InputError, match=r"a, line 2: .*0x"):
        list(file_sentences([plain]))


@pytest.mark.parametrize("max_bytes", [8, 13, 100])
def test_long_lines_come_in_pieces(tmp_path, max_bytes):
    file = tmp_path / "text"
    content = "\ufeff아주 긴 줄의 단어들 and some words\nunbroken한국어한국어한국어unbroken\n\n" * 3 + "end"
    file.write_text(content, newline="")
    pieces = list(read_lines(file, max_bytes=max_bytes))
    assert all(len(piece.encode()) < max_bytes + 1 for _, piece in pieces)
    for line_number, line in read_lines(file):
        parts = [piece for n, piece in pieces if n == line_number]
        assert "".join(parts) == line
        for before, after in pairwise(parts):
            assert before.endswith(" ") or " " not in before or not after
    assert {n for n, _ in pieces} == {n for n, _ in read_lines(file)}
    file.write_bytes(b"a b c d e f g h i j\n\n" + b"k l m n o p q \xff r")
    with pytest.raises(InputError, match=r"line 3: .*0xff.*35"):
        list(read_lines(file, max_bytes=max_bytes))


def test_a_long_line_of_running_text_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(text_stream, "MAX_PARAGRAPH", 16)
    (tmp_path / "text").write_text("한국어한국어한국\na b\n\nc\n")
    assert list(file_paragraphs([tmp_path / "text"])) == ["한국어한국어한국 a b", "c"]


def test_long_sentences_are_cut_and_counted():
    long = LongSentences(3)
    sentences = ["a b c", None, "a b c d", [*"abcdefg"], "abcdefg"]
    found = [text_stream.words_of(s) if s else None for s in long(sentences)]
    assert found == [[*"abc"], None, [*"abc"], ["d"], [*"abc"], [*"def"], ["g"], ["abcdefg"]]
    assert long.cut == 2


@pytest.mark.parametrize("size", [1, 5, 200])
def test_shuffling_holds_no_more_than_its_buffer(size):
    taken = given = most = 0

    def source():
        nonlocal taken, most
        for number in range(100):
            taken += 1
            most = max(most, taken - given)
            yield number

    found = []
    for item in shuffled(source(), size, Random(1)):
        given += 1
        found.append(item)
    assert sorted(found) == list(range(100))
    assert (found == sorted(found)) == (size == 1)
    assert most == min(size, 100)
    assert found == list(shuffled(range(100), size, Random(1)))
    assert all(item < index + size for index, item in enumerate(found))


def test_running_text(tmp_path, monkeypatch):
    file = tmp_path / "text"
    file.write_text("Mr Smith came. He saw\nthe sea!  Then he\n\nleft. 끝났다.", encoding="utf-8")
    assert list(file_paragraphs([file])) == ["Mr Smith came. He saw the sea!  Then he", "left. 끝났다."]
    assert list(SentenceSplitter("en")(file_paragraphs([file]))) == [
        ["Mr", "Smith", "came", "."],
        ["He", "saw", "the", "sea", "!"],
        ["Then", "he"],
        None,
        ["left", "."],
        ["끝났다", "."],
        None,
    ]
    monkeypatch.setattr(text_stream, "MAX_PARAGRAPH", 20)
    words = file.read_text(encoding="utf-8").split()
    parts = list(file_paragraphs([file]))
    assert " ".join(parts).split() == words
    assert len(parts) > 2
    with pytest.raises(ConfigurationError, match=r"language: .*'nowhere'"):
        SentenceSplitter("nowhere")


def test_texts_of_instances():
    def text(words):
        return TextField([Token(word) for word in words.split()])

    question = ListField([text("a b"), text("c")])
    first = Instance({"x": text("p q"), "label": LabelField("p"), "y": text("p q"), "z": question})
    later = [Instance({"x": text(words), "y": text("p q")}) for words in ("d", "", "c")]
    assert list(instance_sentences([first, *later])) == [["p", "q"], ["a", "b"], ["c"], ["d"], ["c"]]


FASTA = """
>sp|P12345|NAME_HUMAN A protein, of two lines
MKTAY iakqr

QISFV*
>Q9/5-10
X
"""


def proteins(text: str) -> list[Protein]:
    return list(read_fasta(("proteins.fasta", i, line) for i, line in enumerate(text.splitlines(), 1)))


def test_residues_of_a_record_are_tokens_and_its_name_the_key():
    assert proteins(FASTA) == [
        Protein("proteins.fasta", 2, "M K T A Y I A K Q R Q I S F V", "sp|P12345|NAME_HUMAN"),
        Protein("proteins.fasta", 6, "X", "Q9/5-10"),
    ]
    assert proteins("") == proteins("\n \n") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("MKT\n", 1),
        (">\nMKT\n", 1),
        (">a\n>b\nMKT\n", 1),
        (">a\n*\n", 1),
        (">a\nMK-T\n", 2),
        (">a\nM*\nMK\n", 3),
    ],
)
def test_what_is_no_fasta(text, line):
    assert error_of(InputError, proteins, text).startswith(f"proteins.fasta, line {line}: ")
