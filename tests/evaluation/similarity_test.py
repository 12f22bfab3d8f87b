import math

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from elmo_tasks.evaluation.similarity import Pair, read_pairs, round_cosines, spearman
from elmo_tasks.vectors.encoder import WordVectors
from tests.errors import input_error


@pytest.mark.parametrize(
    "text",
    [
        "Word 1,Word 2,Human (mean)\nold,new,1.5\nCD,stock,1.31\n",
        "Word 1\tWord 2\tHuman (mean)\t1\t2\nold\tnew\t1.5\t1\t2\nCD\tstock\t1.31\t1\t1.62\n",
        "# WordSim\nold\tnew\t1.5\n\nCD\tstock\t1.31\n",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\nold\tnew\tA\t1.5\t2.7\nCD\tstock\tN\t1.31\t4\n",
        "old new 1.500000\nCD stock 1.31\n",
        "old-j new-j 1.500000\nCD-n stock-n 1.31\n",
        "old;new;1.5\nCD;stock;1.31\n",
        'old,new,1.5\n"CD", stock, 1.31\n',
        ",word1,word2,similarity\n0,old,new,1.5\n1,CD,stock,1.31\n",
        "0,old,new,1.5\n1,CD,stock,1.31\n",
        "pair\tscore of\tleft\tright\tn\tmean\n1\t7\told\tnew\t9\t1.5\n2\t7\tCD\tstock\t8\t1.31\n",
        "index\tterm_a\tterm_b\tpos\tscore\na1\told\tnew\tA\t1.5\na2\tCD\tstock\tN\t1.31\n",
        "1\told\ta\tnew\ta\tan <b>old</b> one\t1.5\t1\n2\tCD\tn\tstock\tn\ta <b>CD</b>\t1.31\t2\n",
        '1\told\ta\tnew\ta\t"an <b>old</b>\ta <b>new</b>" one\t1.5\n2\tCD\tn\tstock\tn\t<b>CD</b>\t"\t1.31\n',
        "# relations\nA\told\tnew\t1.5\nt\tCD\tstock\t1.31\n",
        "old new a 1.5 ANTONYMS\nCD stock n 1.31 NONE\n",
    ],
)
def test_layouts(tmp_path, text):
    (tmp_path / "pairs").write_text(text)
    assert read_pairs(str(tmp_path / "pairs")) == [Pair("old", "new", 1.5), Pair("CD", "stock", 1.31)]


def test_a_hyphen_is_part_of_a_word(tmp_path):
    (tmp_path / "pairs").write_text("plug-n plan 1.5\nCD-n stock-n 1.31\n")
    assert read_pairs(str(tmp_path / "pairs"))[0] == Pair("plug-n", "plan", 1.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n# nothing\n", "pairs: found no pair"),
        ("Word 1,Word 2,Human\n", "line 1: found 'Word 1 Word 2 Human'"),
        ("a b 1\nCD stock\n", "line 2: found 'CD stock'"),
        (
            "a b 1\nc d 2\nCD stock\n",
            "line 3: found 'CD stock'",
        ),
        ("a b N 1\nc d N 1\ne f 1 x\n", "'e f 1 x'"),
        ("a,b,1\rc,d,2\r", "line 1: found no csv (new-line character"),
        ("a b c\nd e f\n", "line 2: found 'd e f'"),
        ("word1\tword2\tPOS\tSim\tn\na\tb\tN\t1\t2\nc\td\tN\t3\n", "line 3: found 4 columns, expected 5"),
        ("seven,eight,5\na,b,1\n7,eight,5\n", "line 3: found '7 eight 5'"),
        ("0,car,3\n1,auto,4\n", "line 2: found '1 auto 4'"),
    ],
)
def test_errors(tmp_path, text, message):
    assert message in input_error(read_pairs, tmp_path / "pairs", text)


def test_spearman_is_scipys_over_the_covered_pairs():
    generator = np.random.default_rng(3)
    words = [f"w{number}" for number in range(12)]
    table = generator.normal(size=(12, 4)).astype(np.float32)
    table[7] = table[3]  # ties
    known = torch.ones(12, dtype=torch.bool)
    known[[0, 5]] = False
    pairs = [
        Pair(words[a], words[b], round(float(generator.uniform(0, 3))))
        for a, b in generator.integers(12, size=(40, 2))
    ]
    pairs += [Pair("w3", "w9", 1.0), Pair("w7", "w9", 2.0)]
    cosines, scores = [], []
    for first, second, score in pairs:
        one, two = (table[int(word[1:])].astype(float) for word in (first, second))
        if known[int(first[1:])] and known[int(second[1:])]:
            cosines.append(one @ two / np.sqrt((one @ one) * (two @ two)))
            scores.append(score)
    found = spearman(WordVectors("x", torch.from_numpy(table), known), words, pairs)
    assert found.covered == len(scores) < len(pairs)
    assert found.value == pytest.approx(spearmanr(np.round(cosines, 12), scores).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("table", "scores"),
    [(torch.ones(3, 2), (1.0, 2.0)), (torch.eye(3), (1.0, 2.0)), (torch.randn(3, 2), (1.0, 1.0))],
)
def test_constants_have_no_correlation(table, scores, caplog):
    vectors = WordVectors("flat", table, torch.ones(3, dtype=torch.bool))
    pairs = [Pair("a", "b", scores[0]), Pair("b", "c", scores[1])]
    value, covered = spearman(vectors, ["a", "b", "c"], pairs)
    assert math.isnan(value)
    assert covered == 2
    assert "flat: all cosines" in caplog.text


def test_nothing_covered():
    vectors = WordVectors("none", torch.zeros(2, 3), torch.zeros(2, dtype=torch.bool))
    value, covered = spearman(vectors, ["a", "b"], [Pair("a", "b", 1.0)])
    assert math.isnan(value)
    assert covered == 0


def test_rounded_cosines_of_equal_vectors_are_equal():
    """Whatever the length of a vector."""
    cosines = torch.tensor([[1.0, 1 + 1e-7], [0.1234561, 0.1234562], [-0.5, -0.500002]])
    rounded = round_cosines(cosines)
    assert (rounded[:, 0] == rounded[:, 1]).tolist() == [True, True, False]
    torch.testing.assert_close(rounded, cosines, atol=5e-7, rtol=0)
    torch.manual_seed(1)
    vector, other = torch.randn(2, 1024)
    cosines = torch.cosine_similarity(torch.rand(1000, 1) * vector, other, dim=1)
    assert len(cosines.unique()) > 1
    assert len(round_cosines(cosines).unique()) == 1
