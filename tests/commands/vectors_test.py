"""`intrinsic`, `neighbors`, `similar` and `probe`, which use vectors, and `vectors`, which writes them."""

import csv
import gzip
import math

import numpy as np
import pytest
import torch

from elmo_tasks import load
from elmo_tasks.evaluation import probes
from elmo_tasks.evaluation.probes import most_frequent_tag, read_tagged
from elmo_tasks.evaluation.words import read_analogies, read_pairs, spearman
from elmo_tasks.vectors.encoder import BiLmEncoder, StaticVectors, out_of_context
from elmo_tasks.vectors.files import read_vectors
from tests.commands.texts import FIXTURES, tiny
from tests.elmo.files import read_frozen
from tests.errors import mentions
from tests.vectors.examples import sentences

WORDSIM, ANALOGIES, CORPUS = (FIXTURES / name for name in ("wordsim.csv", "analogies.txt", "corpus.txt"))
LAYERS = ["layer 0", "layer 1", "layer 2", "average"]


@pytest.fixture
def rows(elmo, tmp_path):
    """Runs a verb on a tiny biLM; returns the rows of its table."""

    def run(*arguments) -> list[dict[str, str]]:
        output = tmp_path / "out.csv"
        assert elmo(*arguments, *tiny(tmp_path), "-o", output, "--force") == 0
        return list(csv.DictReader(output.open()))

    return run


@pytest.fixture
def encoder(tmp_path):
    _, options_file, _, weight_file = tiny(tmp_path)
    weights = torch.tensor([0.2, 0.3, 0.5])
    return BiLmEncoder(
        bilm=read_frozen(options_file, weight_file),
        mixes={"mix 0.2,0.3,0.5": lambda layers: torch.tensordot(weights, layers, dims=1)},
    )


class TestIntrinsic:
    def test_words_alone_and_static_vectors(self, rows, encoder, tmp_path):
        vectors = tmp_path / "vectors.txt.gz"
        vectors.write_bytes(gzip.compress(b"boat 1 0\nship 1 1\ncup 0 1\nmug 0.5 1\nuncle 1 2\n"))
        tests = ("--wordsim", WORDSIM, "--analogies", ANALOGIES)
        found = rows("intrinsic", *tests, "--mix", "0.2,0.3,0.5", "--vectors", vectors)
        pairs, questions = read_pairs(str(WORDSIM)), read_analogies(str(ANALOGIES))
        asked = [word for question in questions for word in question.words]
        words = list(dict.fromkeys([*(word for pair in pairs for word in pair[:2]), *asked]))
        static = out_of_context(StaticVectors(name="static", table=read_vectors(str(vectors))), words)
        names = [*LAYERS, "mix 0.2,0.3,0.5", "vectors.txt.gz"]
        assert [row["vectors"] for row in found[:6]] == names
        for row, by_row in zip(found, [*out_of_context(encoder, words), *static], strict=False):
            expected = spearman(by_row, words, pairs)
            assert (row["test"], row["section"], row["measure"]) == ("wordsim", "", "spearman")
            assert float(row["score"]) == pytest.approx(expected.value, abs=0.01)
            assert (int(row["covered"]), int(row["total"])) == (expected.covered, 24)
        assert found[5]["covered"] == "2"
        analogies = [row for row in found[6:] if row["section"] == "all"]
        assert {row["vectors"] for row in analogies} == set(names)
        assert all((row["vectors"] == names[-1]) == math.isnan(float(row["score"])) for row in analogies)

    def test_vocabulary(self, rows, tmp_path):
        """More words make the questions harder; a question with a word outside of them is not covered."""
        (tmp_path / "words").write_text("uncle\naunt\nbrother\nsister\nferry\n\n")
        found = rows("intrinsic", "--analogies", ANALOGIES, "--vocabulary", tmp_path / "words")
        covered = {(row["covered"], row["total"]) for row in found if row["section"] == "all"}
        assert covered == {("1", "32")}


class TestNeighbors:
    def test_by_layer_beside_static_vectors(self, rows, tmp_path):
        vectors = tmp_path / "vectors.txt"
        vectors.write_text("play 1 0\ngame 1 0.5\ntheatre 1 -0.1\nsoup 0 1\n")
        arguments = ("--sentence", "They play chess .", "--line", 7, "--top", 2, "--vectors", vectors)
        found = rows("neighbors", "play", "--corpus", CORPUS, *arguments)
        assert [row["query"] for row in found[::8]] == [
            "They **play** chess .",
            "The author of the **play** sat in the last row with her hat on .",
            "play",
        ]
        assert [row["vectors"] for row in found[:8:2]] == LAYERS
        assert [row["rank"] for row in found[:4]] == ["1", "2", "1", "2"]
        # The first two lines, and not the query itself
        assert [row["line"] for row in found[:2]] == ["1", "2"]
        assert [row["line"] for row in found[8:10]] == ["1", "2"]
        assert float(found[0]["cosine"]) == pytest.approx(1, abs=1e-5)
        lines = CORPUS.read_text().splitlines()
        for row in found[:16]:
            words = lines[int(row["line"]) - 1].split()
            assert row["neighbor"].replace("**", "") == " ".join(words)
        static = [(row["vectors"], row["neighbor"], row["line"]) for row in found[16:]]
        assert static == [("vectors.txt", "theatre", ""), ("vectors.txt", "game", "")]
        assert not (tmp_path / "out.png").exists()


class TestSimilar:
    def test_the_nearest_lines(self, elmo, tmp_path):
        texts = ["The bridge is closed.", "", "I want my money back!", "It rained."]
        (tmp_path / "text").write_text("\n".join(texts) + "\n")
        query = ("similar", texts[2], "--corpus", tmp_path / "text", "--top", 2, "-o", tmp_path / "out.csv")
        assert elmo(*query) == 0
        found = list(csv.DictReader((tmp_path / "out.csv").open()))
        assert [row["rank"] for row in found] == ["1", "2"]
        assert (found[0]["line"], found[0]["sentence"]) == ("3", texts[2])
        vectors = [result.vector for result in load("sentence").predict_batch(filter(None, texts))]
        cosines = [a @ vectors[1] / np.linalg.norm(a) / np.linalg.norm(vectors[1]) for a in vectors]
        best = sorted(cosines, reverse=True)[:2]
        assert [float(row["cosine"]) for row in found] == pytest.approx(best, abs=1e-4)

    def test_a_column_of_a_table(self, elmo, tmp_path, capsys):
        texts = ["The bridge is closed.", "", "I want my money, and now!", "It rained."]
        rows = [f'{i},"{text}",{"ab"[i % 2]}\n' for i, text in enumerate(texts)]
        (tmp_path / "in.csv").write_text(f"id,text,label\n{''.join(rows)}")
        rows = [f'{i},"{text}","{text}"\n' for i, text in enumerate(texts)]
        (tmp_path / "two.csv").write_text(f"id,title,body\n{''.join(rows)}")
        query = ("similar", texts[2], "--top", 1, "-o", tmp_path / "out.csv", "--force", "--corpus")
        for arguments in (["in.csv"], ["in.csv", "--text", "text"], ["two.csv", "--text", "body"]):
            assert elmo(*query, tmp_path / arguments[0], *arguments[1:]) == 0
            (row,) = csv.DictReader((tmp_path / "out.csv").open())
            assert (row["line"], row["sentence"], float(row["cosine"])) == ("4", texts[2], pytest.approx(1))
        assert elmo(*query, tmp_path / "two.csv") == 1
        assert mentions(capsys.readouterr().err, "two.csv", "title, body", "--text")


class TestProbe:
    DATA = {"pos": "conllu", "wsd": "jsonl", "wic": "tsv"}  # noqa: RUF012
    BASELINES = {  # noqa: RUF012
        "pos": ("most frequent tag", 70),
        "wsd": ("most frequent sense", 12),
        "wic": ("more frequent answer", 10),
    }

    def data(self, kind: str) -> list[str]:
        return [str(FIXTURES / f"{kind}_{split}.{self.DATA[kind]}") for split in ("train", "dev")]

    @pytest.fixture(autouse=True)
    def _short(self, monkeypatch):
        monkeypatch.setattr(probes, "MAX_ITERATIONS", 10)

    @pytest.mark.parametrize("kind", DATA)
    def test_accuracy_of_each_layer_and_a_baseline(self, rows, tmp_path, kind):
        (tmp_path / "vectors.txt").write_text("the 1 0\nmoney 0 1\nriver 1 1\n")
        command = ("probe", kind, *self.data(kind), "--vectors", tmp_path / "vectors.txt", "--mix", "1,0,0")
        found = rows(*command)
        assert rows(*command) == found
        baseline, total = self.BASELINES[kind]
        assert [row["vectors"] for row in found] == [*LAYERS, "mix 1,0,0", "vectors.txt", baseline]
        for row in found:
            assert int(row["total"]) == total
            assert float(row["accuracy"]) == int(row["correct"]) / total
        assert found[4]["correct"] == found[0]["correct"]

    def test_pos_baseline_and_tags(self, elmo, rows, tmp_path, capsys):
        train, dev = (read_tagged(path, column="upos") for path in self.data("pos"))
        *_, last = rows("probe", "pos", *self.data("pos"))
        assert int(last["correct"]) == most_frequent_tag(train, dev)
        assert elmo("probe", "pos", *self.data("pos"), "--tags", "xpos", *tiny(tmp_path)) == 1
        assert "pos_train.conllu, line 3" in capsys.readouterr().err

    def test_first_senses(self, elmo, tmp_path, capsys):
        for name, word in (("a", "art"), ("b", "bell")):
            (tmp_path / f"{name}.data.xml").write_text(
                f'<corpus><text><sentence><instance id="t" lemma="{word}" pos="NOUN">{word}</instance>'
                "</sentence></text></corpus>\n"
            )
            (tmp_path / f"{name}.gold.key.txt").write_text(f"t {word}%1:06:00::\n")
        (tmp_path / "index.sense").write_text("bell%1:06:00:: 02825009 1 4\n")
        arguments = ("probe", "wsd", tmp_path / "a.data.xml", tmp_path / "b.data.xml", *tiny(tmp_path))
        for more, accuracy in (((), "0.0000"), (("--first-senses", tmp_path / "index.sense"), "1.0000")):
            assert elmo(*arguments, *more) == 0
            shown = capsys.readouterr().out
            assert "1 of 1 words of DEV" in shown
            assert shown.count(f"| {accuracy} |") == 5


class TestVectors:
    @pytest.fixture
    def text(self, tmp_path):
        path = tmp_path / "text.gz"
        with gzip.open(path, "wt") as file:
            file.write("".join(" ".join(words).capitalize() + "\n\n" for words in sentences()))
        return path

    @pytest.mark.parametrize("method", ["word2vec", "svd"])
    def test_what_it_writes_is_read(self, elmo, text, tmp_path, method, capsys):
        if method == "word2vec":
            pytest.importorskip("gensim")
        output = tmp_path / "out.txt.gz"
        assert elmo("vectors", method, text, output, "--dim", 5, "--lowercase") == 0
        assert f"{output}: 14 words, 5 dimensions" in capsys.readouterr().out
        header, *lines = gzip.decompress(output.read_bytes()).decode().splitlines()
        assert header == "14 5"
        assert len({line.split()[0] for line in lines}) == 14
        # Equal bytes each time
        before = output.read_bytes()
        assert elmo("vectors", method, text, output, "--dim", 5, "--lowercase", "--force") == 0
        assert output.read_bytes() == before

    @pytest.mark.parametrize("layer", ["average", "1"])
    @pytest.mark.parametrize("in_text", [False, True])
    def test_elmos_vectors_of_words(self, elmo, encoder, tmp_path, capsys, layer, in_text):
        words = tmp_path / "words.txt"
        words.write_text("cat\nOslo\nabsent\ncat\n")
        lines = ["the cat saw Oslo", "", "a cat , a dog"]
        (tmp_path / "text.txt").write_text("\n".join(lines))
        output = tmp_path / "out.txt"
        contexts = ("--contexts", tmp_path / "text.txt") if in_text else ()
        assert elmo("vectors", "elmo", words, output, "--layer", layer, *contexts, *tiny(tmp_path)) == 0
        row = encoder.names.index("average" if layer == "average" else "layer 1")
        if in_text:
            one, _, two = (vectors[row] for vectors in encoder.encode(map(str.split, lines)))
            expected = {"cat": (one[1] + two[1]) / 2, "Oslo": one[3]}
        else:
            expected = {word: next(encoder.encode([[word]]))[row, 0] for word in ("cat", "Oslo", "absent")}
        said = f"{output}: {len(expected)} words, 12 dimensions" + ("; 1 without a vector" if in_text else "")
        assert said in capsys.readouterr().out
        table = pytest.importorskip("gensim.models").KeyedVectors.load_word2vec_format(str(output))
        assert table.index_to_key == list(expected)
        for word, vector in expected.items():
            assert torch.allclose(torch.tensor(table[word]), vector, atol=1e-5)


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("intrinsic", "--wordsim"),
        ("intrinsic --analogies {wordsim}", "wordsim.csv, line 1"),
        ("neighbors xyzzy --corpus {corpus}", "'xyzzy'"),
        ("neighbors play --corpus {corpus} --line 51", "--line"),
        ("neighbors play --corpus {corpus} --sentence Nothing", "--sentence"),
        ("vectors elmo {text} {out} --layer 3", "layer"),
        ("vectors elmo {text} {out} --contexts {corpus}", "--contexts"),
        ("vectors svd {text} {out} --min-count 1000", "--min-count"),
    ],
)
def test_errors(elmo, tmp_path, capsys, command, place):
    (tmp_path / "text").write_text("xyzzy\n")
    paths = {"wordsim": WORDSIM, "corpus": CORPUS, "text": tmp_path / "text", "out": tmp_path / "out"}
    bilm = () if "svd" in command else tiny(tmp_path)
    assert elmo(*command.format(**paths).split(), *bilm) == 1
    assert place in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
