"""Proteins as sentences."""

import pytest

from elmo_tasks.data.formats.fasta import read_fasta
from elmo_tasks.data.input_files import InputError
from elmo_tasks.embedding.corpus import SourceLine

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
    ("text", "line"),
    [
        ("MKT\n", 1),
        (">\nMKT\n", 1),
        (">a\x00\nMKT\n", 1),
        (">a\n>b\nMKT\n", 1),
        (">a\nMKT\n>b some\n", 3),
        (">a\n*\n", 1),
        (">a\nMKT\n>a other\nM\n", 3),
        (">a/b\nM\n>a\nM\n", 3),
        (">a\nM\n>a/b/c\nM\n", 3),
        (">/\nM\n", 1),
        (">a\nMK-T\n", 2),
        (">a\nMKé\n", 2),
        (">a\nM*\nMK\n", 3),
    ],
)
def test_what_is_no_fasta(text, line):
    with pytest.raises(InputError) as caught:
        records(text)
    assert str(caught.value).startswith(f"proteins.fasta, line {line}: ")


def test_several_files():
    lines = [SourceLine("a", 1, ">one"), SourceLine("a", 2, "MK"), SourceLine("b", 1, "TA")]
    with pytest.raises(InputError, match="b, line 1: "):
        list(read_fasta(lines))
    lines[2:] = [SourceLine("b", 1, ">one")]
    with pytest.raises(InputError, match=r"b, line 1: .*'one'.*a, line 1"):
        list(read_fasta(lines))
