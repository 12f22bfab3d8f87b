"""Proteins as sentences."""

import pytest

from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.text_stream import Protein, read_fasta

FASTA = """
>sp|P12345|NAME_HUMAN A protein, of two lines
MKTAY iakqr

QISFV*
>Q9/5-10
X
"""


def records(text: str) -> list[Protein]:
    return list(
        read_fasta(("proteins.fasta", number, line) for number, line in enumerate(text.splitlines(), 1))
    )


def test_residues_of_a_record_are_tokens_and_its_name_the_key():
    assert records(FASTA) == [
        Protein("proteins.fasta", 2, "M K T A Y I A K Q R Q I S F V", "sp|P12345|NAME_HUMAN"),
        Protein("proteins.fasta", 6, "X", "Q9/5-10"),
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
    lines = [("a", 1, ">one"), ("a", 2, "MK"), ("b", 1, "TA")]
    with pytest.raises(InputError, match="b, line 1: "):
        list(read_fasta(lines))
