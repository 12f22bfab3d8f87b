import pytest

from elmo_tasks.ner.reader import read_ranks
from elmo_tasks.ner.reading import as_read

RANKS = {word: rank for rank, word in enumerate(["the", "Oslo", "in", "U.S.", "NATO", "oslo"])}


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (
            "NATO MEETS IN OSLO ( O'BRIEN ' S XYZ U.S. 7TH )",
            "NATO Meets in Oslo ( O'Brien ' S XYZ U.S. 7TH )",
        ),
        ("THE U.S. and OSLO", "THE U.S. and OSLO"),  # has small letters
        ("A ( I )", "A ( I )"),
        ("1990 - 7 :", "1990 - 7 :"),
    ],
)
def test_a_sentence_in_capitals(words, read):
    assert as_read(words.split(), RANKS) == read.split()
    assert as_read(words.split()) == words.split()


def test_signs():
    words = ["\ufeffAnna", "\u200b", "Rene\u0301", "😀", "🇳🇴", "👍🏽", "❤️", "©", "∞", "é", "👨‍👩‍👧"]
    smiley = ":)"
    expected = ["Anna", "\u200b", "René", *[smiley] * 4, "©", "∞", "é", smiley]
    assert as_read(words) == expected


def test_ranks_of_a_vocabulary(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\na\n")
    assert read_ranks(str(tmp_path / "words.txt")) == {"a": 0, "b": 1}
    assert (
        read_ranks("pretrained/english/vocab.txt")["Norway"]
        > read_ranks("pretrained/english/vocab.txt")["of"]
    )
