import csv

import pytest

from tests.commands.texts import FIXTURES, tiny

CORPUS = FIXTURES / "corpus.txt"


def rows(path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def test_neighbors_by_layer_beside_static_vectors(elmo, tmp_path, capsys):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("play 1 0\ngame 1 0.5\ntheatre 1 -0.1\nsoup 0 1\n")
    arguments = ("--sentence", "They play chess .", "--line", 7, "--top", 2, "--vectors", vectors)
    output = tmp_path / "out.csv"
    assert elmo("neighbors", "play", "--corpus", CORPUS, *arguments, *tiny(tmp_path), "-o", output) == 0
    found = rows(output)
    own = "The author of the **play** sat in the last row with her … "
    assert [row["query"] for row in found[::8]] == [
        "They **play** chess .",
        own.replace(" … ", " hat on ."),
        "play",
    ]
    names = ["layer 0", "layer 1", "layer 2", "average"]
    assert [row["vectors"] for row in found[:8:2]] == names
    assert [row["rank"] for row in found[:4]] == ["1", "2", "1", "2"]
    # The first two, and without the query itself
    assert [row["line"] for row in found[:2]] == ["1", "2"]
    assert [row["line"] for row in found[8:10]] == ["1", "2"]
    assert float(found[0]["cosine"]) == pytest.approx(1, abs=1e-5)
    lines = CORPUS.read_text().splitlines()
    for row in found[:16]:
        words = lines[int(row["line"]) - 1].split()
        assert row["neighbor"].replace("**", "") == " ".join(words)
    assert [(row["vectors"], row["neighbor"], row["line"]) for row in found[16:]] == [
        ("vectors.txt", "theatre", ""),
        ("vectors.txt", "game", ""),
    ]
    assert not output.with_suffix(".png").exists()


def test_the_first_line_with_the_word(elmo, tmp_path, capsys):
    (tmp_path / "vectors.txt").write_text("soup 0 1\n")
    output = tmp_path / "out.csv"
    arguments = ("--corpus", CORPUS, "--top", 1, "--vectors", tmp_path / "vectors.txt", *tiny(tmp_path))
    assert elmo("neighbors", "bank", *arguments, "-o", output) == 0
    *layers, static = rows(output)
    assert layers[0]["query"].startswith("We walked along the **bank** until")
    assert layers[0]["neighbor"].startswith("The **bank** refused")
    assert (static["neighbor"], static["rank"]) == ("(unknown)", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("xyzzy",), "corpus.txt: found no line with 'xyzzy', expected one, or a --sentence"),
        (("play", "--line", 51), "--line: found 51, expected 1 to 50, the lines of"),
        (("play", "--line", 9), "--line 9: found 'She lit the stove"),
        (
            ("play", "--sentence", "Nothing here"),
            "--sentence: found 'Nothing here', expected a sentence with the",
        ),
    ],
)
def test_errors(elmo, tmp_path, capsys, arguments, message):
    assert elmo("neighbors", *arguments, "--corpus", CORPUS, *tiny(tmp_path)) == 1
    assert message in capsys.readouterr().err
