import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.corpus import SourceLine, read_fasta

FASTA = """
>sp|P12345|NAME_HUMAN A protein, of two lines
MKTAY iakqr

QISFV*
>Q9/5-10
X
"""


def records(text: str, where: str = "proteins.fasta") -> list[SourceLine]:
    return list(
        read_fasta(SourceLine(where, number, line) for number, line in enumerate(text.splitlines(), 1))
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
        ("MKT\n", "line 1: found 'MKT', expected a header first, as '>P12345'"),
        (">\nMKT\n", "line 1: found '>', expected a name behind '>'"),
        (">a\x00\nMKT\n", r"line 1: found '>a\x00', expected a name behind '>'"),
        (">a\n>b\nMKT\n", "line 1: found no residue of 'a', expected letters, one a residue"),
        (">a\nMKT\n>b some\n", "line 3: found no residue of 'b', expected letters, one a residue"),
        (">a\n*\n", "line 1: found no residue of 'a', expected letters, one a residue"),
        (">a\nMKT\n>a other\nM\n", "line 3: found 'a', which stands in line 1 too, expected another name"),
        (">a\nMK-T\n", "line 2: found '-', expected letters, one a residue"),
        (">a\nMKé\n", "line 2: found 'é', expected letters, one a residue"),
        (">a\nMKß\n", "line 2: found 'ß', expected letters, one a residue"),
        (">a\nM*T\n", "line 2: found '*', expected letters, one a residue"),
        (">a\nM*\nMK\n", "line 3: found residues behind '*', expected a header"),
    ],
)
def test_what_is_no_fasta(text, message):
    with pytest.raises(ElmoError) as caught:
        records(text)
    assert str(caught.value) == f"proteins.fasta, {message}"


def test_several_files():
    lines = [SourceLine("a", 1, ">one"), SourceLine("a", 2, "MK"), SourceLine("b", 1, "TA")]
    with pytest.raises(ElmoError, match="b, line 1: found 'TA', expected a header first"):
        list(read_fasta(lines))
    lines[2:] = [SourceLine("b", 1, ">one")]
    with pytest.raises(ElmoError, match="b, line 1: found 'one', which stands in a, line 1 too"):
        list(read_fasta(lines))
