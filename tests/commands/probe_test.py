import csv

import pytest

from elmo_tasks.evaluation import tagging
from elmo_tasks.evaluation.tagging import most_frequent_tag, read_conllu
from tests.commands.texts import FIXTURES, tiny

LAYERS = ["layer 0", "layer 1", "layer 2", "average"]
DATA = {"pos": "conllu", "wsd": "jsonl", "wic": "tsv"}
BASELINES = {"pos": "most frequent tag", "wsd": "most frequent sense", "wic": "more frequent answer"}
TOTALS = {"pos": 70, "wsd": 12, "wic": 10}


def data(kind: str) -> list[str]:
    return [str(FIXTURES / f"{kind}_{split}.{DATA[kind]}") for split in ("train", "dev")]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(tagging, "MAX_ITERATIONS", 10)


@pytest.mark.parametrize("kind", DATA)
def test_accuracy_of_each_layer_and_a_baseline(elmo, tmp_path, kind):
    (tmp_path / "vectors.txt").write_text("the 1 0\nmoney 0 1\nriver 1 1\n")
    options = ("--vectors", tmp_path / "vectors.txt", "--mix", "1,0,0", *tiny(tmp_path))
    found = []
    for output in (tmp_path / "one.csv", tmp_path / "two.csv"):
        assert elmo("probe", kind, *data(kind), *options, "-o", output) == 0
        found.append(list(csv.DictReader(output.open())))
    assert found[0] == found[1]
    names = [*LAYERS, "mix 1,0,0", "vectors.txt", BASELINES[kind]]
    assert [row["vectors"] for row in found[0]] == names
    for row in found[0]:
        assert int(row["total"]) == TOTALS[kind]
        assert float(row["accuracy"]) == int(row["correct"]) / TOTALS[kind]
    assert found[0][4]["correct"] == found[0][0]["correct"]


def test_pos_baseline_and_tags(elmo, tmp_path, capsys):
    train, dev = (read_conllu(path, column="upos") for path in data("pos"))
    assert elmo("probe", "pos", *data("pos"), *tiny(tmp_path)) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert f"| most frequent tag | {most_frequent_tag(train, dev) / 70:.4f} |" in last
    assert elmo("probe", "pos", *data("pos"), "--tags", "xpos", *tiny(tmp_path)) == 1
    assert (
        "pos_train.conllu, line 3: found a word without a tag, expected a tag, xpos"
        in capsys.readouterr().err
    )


def test_first_senses(elmo, tmp_path, capsys):
    for name, word in (("a", "art"), ("b", "bell")):
        (tmp_path / f"{name}.data.xml").write_text(
            f'<corpus><text><sentence><instance id="t" lemma="{word}" pos="NOUN">{word}</instance></sentence>'
            "</text></corpus>\n"
        )
        (tmp_path / f"{name}.gold.key.txt").write_text(f"t {word}%1:06:00::\n")
    (tmp_path / "index.sense").write_text("bell%1:06:00:: 02825009 1 4\n")
    arguments = ("probe", "wsd", tmp_path / "a.data.xml", tmp_path / "b.data.xml", *tiny(tmp_path))
    for more, accuracy in (((), "0.0000"), (("--first-senses", tmp_path / "index.sense"), "1.0000")):
        assert elmo(*arguments, *more) == 0
        shown = capsys.readouterr().out
        assert "1 of 1 words of DEV have a lemma that TRAIN has not" in shown
        assert shown.count(f"| {accuracy} |") == 5


def test_help_of_a_probe(elmo, capsys):
    assert elmo("probe", "--help") == 0
    shown = capsys.readouterr().out
    assert all(f"    {kind} " in shown for kind in DATA)
    assert elmo("probe", "wsd", "--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--first-senses FILE" in shown
    assert "(default: the biLM that comes with the project)" in shown
    assert elmo("probe") == 2
