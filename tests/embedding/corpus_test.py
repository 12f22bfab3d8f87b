"""A text on disk, and FASTA as one. `tests/commands/corpus_test.py` has texts of files."""

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.corpus import MAX_TOKENS, SourceLine, read_fasta, write_corpus


def test_keys(tmp_path):
    lines = [
        SourceLine("in", line_number, f" {text} ") for line_number, text in enumerate(["a b", "", "c"], 1)
    ]
    text = write_corpus(lines, tmp_path)
    assert not text.has_keys
    assert list(text.keys()) == ["0", "1", "2"]
    digest = text.digest
    keys = ["first", "second\u2028", "a/third"]
    named = (line._replace(key=key) for line, key in zip(lines, keys, strict=True))
    text = write_corpus(named, tmp_path)
    assert text.has_keys
    assert list(text.keys()) == keys
    assert list(text) == ["a b", "", "c"]
    assert text.tokens == 3
    assert text.digest != digest


def test_a_line_that_is_too_long(tmp_path):
    with pytest.raises(ElmoError, match=r"in, line 7: .*65,537"):
        write_corpus([SourceLine("in", 7, "w " * (MAX_TOKENS + 1))], tmp_path)


FASTA = """
>sp|P12345|NAME_HUMAN A protein, of two lines
MKTAY iakqr

QISFV*
>Q9/5-10
X
"""


def records(text: str, where: str = "proteins.fasta") -> list[SourceLine]:
    return list(
        read_fasta(
            SourceLine(where, line_number, line) for line_number, line in enumerate(text.splitlines(), 1)
        )
    )


def test_residues_of_a_record_are_tokens_and_its_name_the_key():
    assert records(FASTA) == [
        SourceLine("proteins.fasta", 2, "M K T A Y I A K Q R Q I S F V", "sp|P12345|NAME_HUMAN"),
        SourceLine("proteins.fasta", 6, "X", "Q9/5-10"),
    ]
    assert records("") == records("\n \n") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MKT\n", "line 1: found 'MKT'"),
        (">\nMKT\n", "line 1: found '>'"),
        (">a\x00\nMKT\n", r"line 1: found '>a\x00'"),
        (">a\n>b\nMKT\n", "line 1: found no residue"),
        (">a\nMKT\n>b some\n", "line 3: found no residue"),
        (">a\n*\n", "line 1: found no residue"),
        (">a\nMKT\n>a other\nM\n", "line 3: found 'a'"),
        (">a/b\nM\n>a\nM\n", "line 3: found 'a', beside 'a/b' in line 1"),
        (">a\nM\n>a/b/c\nM\n", "line 3: found 'a/b/c', beside 'a' in line 1"),
        (">/\nM\n", "line 1: found '>/'"),
        (">a\nMK-T\n", "line 2: found '-'"),
        (">a\nMKé\n", "line 2: found 'é'"),
        (">a\nMKß\n", "line 2: found 'ß'"),
        (">a\nM*T\n", "line 2: found '*'"),
        (">a\nM*\nMK\n", "line 3: found residues after '*'"),
    ],
)
def test_what_is_no_fasta(text, message):
    with pytest.raises(ElmoError) as caught:
        records(text)
    assert str(caught.value).startswith(f"proteins.fasta, {message}")


def test_several_files():
    lines = [SourceLine("a", 1, ">one"), SourceLine("a", 2, "MK"), SourceLine("b", 1, "TA")]
    with pytest.raises(ElmoError, match="b, line 1: found 'TA'"):
        list(read_fasta(lines))
    lines[2:] = [SourceLine("b", 1, ">one")]
    with pytest.raises(ElmoError, match=r"b, line 1: .*'one', .*a, line 1"):
        list(read_fasta(lines))
