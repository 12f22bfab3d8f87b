import csv
import gzip
import math

import pytest
import torch

from elmo_tasks.evaluation.analogies import accuracies, read_questions
from elmo_tasks.evaluation.similarity import read_pairs, spearman
from elmo_tasks.vectors.encoder import BiLmEncoder, StaticVectors
from elmo_tasks.vectors.text_format import read_table
from elmo_tasks.vectors.word_vectors import alone, in_contexts
from tests.commands.texts import FIXTURES, tiny
from tests.elmo.files import read_frozen

WORDSIM, ANALOGIES, CORPUS = (FIXTURES / name for name in ("wordsim.csv", "analogies.txt", "corpus.txt"))


def encoder(options: tuple[str, ...]) -> BiLmEncoder:
    weights = torch.tensor([0.2, 0.3, 0.5])
    return BiLmEncoder(
        bilm=read_frozen(options[1], options[3]),
        mixes={"mix 0.2,0.3,0.5": lambda layers: torch.tensordot(weights, layers, dims=1)},
    )


def rows(path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def test_words_alone_and_static_vectors(elmo, tmp_path):
    options = tiny(tmp_path)
    vectors = tmp_path / "vectors.txt.gz"
    vectors.write_bytes(gzip.compress(b"boat 1 0\nship 1 1\ncup 0 1\nmug 0.5 1\nuncle 1 2\n"))
    output = tmp_path / "out.csv"
    tests = ("--wordsim", WORDSIM, "--analogies", ANALOGIES)
    assert (
        elmo("intrinsic", *tests, *options, "--mix", "0.2,0.3,0.5", "--vectors", vectors, "-o", output) == 0
    )
    pairs, questions = read_pairs(str(WORDSIM)), read_questions(str(ANALOGIES))
    asked = [word for question in questions for word in question.words]
    words = list(dict.fromkeys([*(word for pair in pairs for word in pair[:2]), *asked]))
    found = rows(output)
    static = alone(StaticVectors(name="static", table=read_table(str(vectors))), words)
    names = ["layer 0", "layer 1", "layer 2", "average", "mix 0.2,0.3,0.5", "vectors.txt.gz"]
    assert [row["vectors"] for row in found[:6]] == names
    for row, by_row in zip(found, [*alone(encoder(options), words), *static], strict=False):
        expected = spearman(by_row, words, pairs)
        assert (row["test"], row["section"], row["measure"]) == ("wordsim", "", "spearman")
        assert float(row["score"]) == pytest.approx(expected.value, abs=0.01)
        assert (int(row["covered"]), int(row["total"])) == (expected.covered, 24)
    assert found[5]["covered"] == "2"
    for number, by_row in enumerate(alone(encoder(options), words)):
        expected = accuracies(by_row, words, questions, asked)
        mine = [row for row in found[6:] if row["vectors"] == names[number]]
        assert [(row["section"], row["measure"]) for row in mine] == [accuracy[:2] for accuracy in expected]
        for row, accuracy in zip(mine, expected, strict=True):
            assert float(row["score"]) == pytest.approx(accuracy.correct / accuracy.covered, abs=0.05)
    assert all(math.isnan(float(row["score"])) for row in found[6:] if row["vectors"] == "vectors.txt.gz")


def test_contexts(elmo, tmp_path, capsys):
    options = tiny(tmp_path)
    arguments = (
        "intrinsic",
        "--wordsim",
        WORDSIM,
        *options,
        "--contexts",
        CORPUS,
        "--occurrences",
        2,
        "--seed",
        5,
    )
    for output in ("one.csv", "two.csv"):
        assert elmo(*arguments, "-o", tmp_path / output) == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    pairs = read_pairs(str(WORDSIM))
    words = list(dict.fromkeys(word for pair in pairs for word in pair[:2]))
    lines = CORPUS.read_text().splitlines()
    for row, by_row in zip(
        rows(tmp_path / "one.csv"), in_contexts(encoder(options), words, lines, limit=2, seed=5), strict=False
    ):
        expected = spearman(by_row, words, pairs)
        assert float(row["score"]) == pytest.approx(expected.value, abs=0.01)
        assert 0 < int(row["covered"]) == expected.covered < 24


def test_vocabulary(elmo, tmp_path):
    """More words make the questions harder; a question whose words are not among them is not covered."""
    (tmp_path / "words").write_text("uncle\naunt\nbrother\nsister\nferry\n\n")
    arguments = ("--analogies", ANALOGIES, "--vocabulary", tmp_path / "words", *tiny(tmp_path))
    assert elmo("intrinsic", *arguments, "-o", tmp_path / "out.csv") == 0
    everything = [row for row in rows(tmp_path / "out.csv") if row["section"] == "all"]
    assert {(row["covered"], row["total"]) for row in everything} == {("1", "32")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "found no test, expected one or more of --wordsim, --simlex, --men, --rg, --analogies"),
        (("--simlex", "nowhere"), "nowhere: found no file"),
        (("--analogies", WORDSIM), "wordsim.csv, line 1: found"),
        (("--wordsim", WORDSIM, "--contexts", "nowhere"), "nowhere: found no file"),
    ],
)
def test_errors(elmo, tmp_path, capsys, arguments, message):
    assert elmo("intrinsic", *arguments, *tiny(tmp_path)) == 1
    assert message in capsys.readouterr().err
