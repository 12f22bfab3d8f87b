import math

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from elmo_tasks.common.files import bundled
from elmo_tasks.evaluation import words
from elmo_tasks.evaluation.words import (
    ANALOGY_METHODS,
    Accuracy,
    Analogy,
    Occurrence,
    WordPair,
    accuracies,
    nearest_tokens,
    read_analogies,
    read_pairs,
    solve,
    spearman,
    text_blocks,
)
from elmo_tasks.vectors import encoder
from elmo_tasks.vectors.encoder import WordVectors
from tests.errors import input_error
from tests.vectors.examples import tiny_encoder

WORDS = [f"w{number}" for number in range(15)]


@pytest.mark.parametrize(
    "text",
    [
        "Word 1,Word 2,Human (mean)\nold,new,1.5\nCD,stock,1.31\n",
        "Word 1,Word 2,Human (mean)\rold,new,1.5\rCD,stock,1.31\r",
        "Word 1\tWord 2\tHuman (mean)\t1\t2\nold\tnew\t1.5\t1\t2\nCD\tstock\t1.31\t1\t1.62\n",
        "# WordSim\nold\tnew\t1.5\n\nCD\tstock\t1.31\n",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\nold\tnew\tA\t1.5\t2.7\nCD\tstock\tN\t1.31\t4\n",
        "old new 1.500000\nCD stock 1.31\n",
        "old-j new-j 1.500000\nCD-n stock-n 1.31\n",
        "old;new;1.5\nCD;stock;1.31\n",
        'old,new,1.5\n"CD", stock, 1.31\n',
        ",word1,word2,similarity\n0,old,new,1.5\n1,CD,stock,1.31\n",
        "0,old,new,1.5\n1,CD,stock,1.31\n",
        ",similarity,word1,word2,relation\n0,1.5,old,new,none\n1,1.31,CD,stock,none\n",
        ",word1,word2,similarity\n0,old,new,1.5\n1,CD,stock,1.31\n2,,,\n",
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
    assert read_pairs(str(tmp_path / "pairs")) == [WordPair("old", "new", 1.5), WordPair("CD", "stock", 1.31)]


def test_a_hyphen_is_part_of_a_word(tmp_path):
    (tmp_path / "pairs").write_text("plug-n plan 1.5\nCD-n stock-n 1.31\n")
    assert read_pairs(str(tmp_path / "pairs"))[0] == WordPair("plug-n", "plan", 1.5)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("\n# nothing\n", "pairs"),
        ("a b 1\nc d 2\nCD stock\n", "line 3"),
        ("a b c\nd e f\n", "line 1"),
        ("word1\tword2\tPOS\tSim\tn\na\tb\tN\t1\t2\nc\td\tN\t3\n", "line 3"),
        ("seven,eight,5\na,b,1\n7,eight,5\n", "line 3"),
    ],
)
def test_files_without_pairs(tmp_path, text, place):
    assert place in input_error(read_pairs, tmp_path / "pairs", text)


def test_spearman_is_scipys_over_the_covered_pairs():
    generator = np.random.default_rng(3)
    table = generator.normal(size=(12, 4)).astype(np.float32)
    table[7] = table[3]  # ties
    known = torch.ones(12, dtype=torch.bool)
    known[[0, 5]] = False
    pairs = [
        WordPair(WORDS[a], WORDS[b], round(float(generator.uniform(0, 3))))
        for a, b in generator.integers(12, size=(40, 2))
    ]
    pairs += [WordPair("w3", "w9", 1.0), WordPair("w7", "w9", 2.0)]
    cosines, scores = [], []
    for first, second, score in pairs:
        one, two = (table[int(word[1:])].astype(float) for word in (first, second))
        if known[int(first[1:])] and known[int(second[1:])]:
            cosines.append(one @ two / np.sqrt((one @ one) * (two @ two)))
            scores.append(score)
    found = spearman(WordVectors("x", torch.from_numpy(table), known), WORDS[:12], pairs)
    assert found.covered == len(scores) < len(pairs)
    assert found.value == pytest.approx(spearmanr(np.round(cosines, 12), scores).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("table", "score", "known"),
    [
        (torch.ones(3, 2), 2.0, True),
        (torch.eye(3), 2.0, True),
        (torch.randn(3, 2), 1.0, True),
        (torch.randn(3, 2), 2.0, False),
    ],
)
def test_constants_have_no_correlation(table, score, known, caplog):
    vectors = WordVectors("flat", table, torch.full((3,), known))
    value, covered = spearman(vectors, ["a", "b", "c"], [WordPair("a", "b", 1.0), WordPair("b", "c", score)])
    assert math.isnan(value)
    assert covered == 2 * known
    assert ("flat: all cosines" in caplog.text) == known


def by_hand(unit: np.ndarray, question: tuple[int, ...], candidates: list[int], method: str) -> int:
    """Levy and Goldberg 2014, equations (3) and (4), word by word."""
    a, b, c, _ = question
    scores = {}
    for word in candidates:
        if word not in (a, b, c):
            to_a, to_b, to_c = (unit[word] @ unit[other] for other in (a, b, c))
            if method == "3CosAdd":
                scores[word] = to_b - to_a + to_c
            else:
                to_a, to_b, to_c = ((1 + cosine) / 2 for cosine in (to_a, to_b, to_c))
                scores[word] = to_b * to_c / (to_a + 0.001)
    return max(scores, key=lambda word: scores[word])


@pytest.fixture
def table() -> np.ndarray:
    """Vectors in which some of the questions are solved."""
    generator = np.random.default_rng(4)
    table = generator.normal(size=(15, 3))
    table[10:] = table[5:10] + [1.0, 2.0, 0.0] + 0.3 * generator.normal(size=(5, 3))
    return table


def questions() -> list[tuple[int, ...]]:
    pairs = [(one, one + 5) for one in range(5, 10)]
    solvable = [(*one, *two) for one in pairs for two in pairs if one != two]
    # Repeated words, too
    return [*solvable, (5, 10, 5, 10), (0, 1, 2, 3), (1, 1, 2, 2)]


@pytest.mark.parametrize("cosines", [1, 40, 1 << 22])
def test_solved_as_by_hand(table, monkeypatch, cosines):
    monkeypatch.setattr(words, "COSINES_AT_ONCE", cosines)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    solved = solve(torch.from_numpy(table), torch.tensor(questions()))
    for method in ANALOGY_METHODS:
        expected = [by_hand(unit, each, list(range(15)), method) == each[3] for each in questions()]
        assert solved[method].tolist() == expected
        assert 0 < sum(expected) < len(expected)


def test_accuracies_by_section_over_the_covered_questions(table):
    """Neither an unknown word nor one outside of the vocabulary is an answer."""
    sections = ["capitals", "gram1-plural", "capitals", "family"]
    asked = [
        Analogy(sections[i % 4], tuple(WORDS[word] for word in question))
        for i, question in enumerate(questions())
    ]
    known = torch.ones(15, dtype=torch.bool)
    known[4] = known[6] = False
    vocabulary = [word for word in WORDS if word != "w12"] * 2
    found = accuracies(WordVectors("x", torch.from_numpy(table), known), WORDS, asked, vocabulary)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    candidates = [word for word in range(15) if word not in (4, 6, 12)]
    names = ["capitals", "gram1-plural", "family", "semantic", "syntactic", "all"]
    groups = {name: {name} for name in names} | {
        "semantic": {"capitals", "family"},
        "syntactic": {"gram1-plural"},
        "all": set(sections),
    }
    expected = []
    for method in ANALOGY_METHODS:
        for name in names:
            mine = [q for q, one in zip(questions(), asked, strict=True) if one.section in groups[name]]
            covered = [question for question in mine if set(question) <= set(candidates)]
            right = sum(by_hand(unit, question, candidates, method) == question[3] for question in covered)
            expected.append(Accuracy(name, method, right, len(covered), len(mine)))
    assert found == expected


def test_words_that_a_table_does_not_distinguish():
    """The variant of a word with its vector is no other answer."""
    table = [[1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    names = ["Athens", "Greece", "Paris", "France", "other"]
    question = [Analogy("s", ("Athens", "Greece", "Paris", "France"))]
    words = [*names, "france", "paris"]
    known = torch.ones(7, dtype=torch.bool)
    vectors = WordVectors("x", torch.tensor([*table, table[3], table[2]]).float(), known)
    without_capitals = ["Athens", "Greece", "paris", "france", "other"]
    for vocabulary in (names, ["france", "paris", *names], [*names, "paris"], without_capitals):
        found = accuracies(vectors, words, question, vocabulary)
        assert [(one.correct, one.covered) for one in found] == [(1, 1)] * 4
    # Another vector, so another word: as good an answer as the right one, and before it
    vectors.vectors[5] *= 2
    assert [one.correct for one in accuracies(vectors, words, question, ["france", *names])] == [0] * 4


def test_questions_have_their_sections(tmp_path):
    (tmp_path / "q").write_text(": family\nboy girl son daughter\n\n: gram1 plural\na b c d\n")
    assert read_analogies(str(tmp_path / "q")) == [
        Analogy("family", ("boy", "girl", "son", "daughter")),
        Analogy("gram1 plural", ("a", "b", "c", "d")),
    ]
    assert len(read_analogies(str(bundled("fixtures/evaluation/analogies.txt")))) == 32


def test_layouts_without_sections(tmp_path):
    """Four words a line; MSR's two files; BATS, whose second words have variants."""
    files = {
        "msr.txt": "good better rough rougher\n",
        "rel.questions": "good better rough\ndog dogs cat\n",
        "rel.answers": "JJ_JJR rougher\nNN_NNS cats\n",
        "I01 [noun].txt": "dog\tdogs\nox\toxen/oxes\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert read_analogies(str(tmp_path)) == [
        Analogy("I01 [noun]", ("dog", "dogs", "ox", "oxen", "oxes")),
        Analogy("I01 [noun]", ("ox", "oxen", "dog", "dogs")),
        Analogy("msr", ("good", "better", "rough", "rougher")),
        Analogy("JJ_JJR", ("good", "better", "rough", "rougher")),
        Analogy("NN_NNS", ("dog", "dogs", "cat", "cats")),
    ]


@pytest.mark.parametrize("section", ["gram1-plural", "I01 [noun]", "D02 [un+adj]", "NN_NNS", "VBD_VBZ"])
def test_syntactic_sections(section):
    """By Google's, BATS' and MSR's names."""
    asked = [Analogy(name, ("w1", "w2", "w3", "w4")) for name in (section, "NN-capitals")]
    vectors = WordVectors("x", torch.zeros(15, 3), torch.zeros(15, dtype=torch.bool))
    totals = {found.section: found.total for found in accuracies(vectors, WORDS, asked, WORDS)}
    assert totals == {section: 1, "NN-capitals": 1, "semantic": 1, "syntactic": 1, "all": 2}


def test_any_variant_is_right():
    vocabulary = ["dog", "dogs", "ox", "oxen", "oxes", "other"]
    vectors = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, -1, 0], [0, 1, 1], [0, -1, 0]]).float()
    asked = [Analogy("s", ("dog", "dogs", "ox", *answers)) for answers in (["oxen"], ["oxen", "oxes"])]
    known = torch.ones(6, dtype=torch.bool)
    found = accuracies(WordVectors("x", vectors, known), vocabulary, asked, vocabulary)
    assert {(each.correct, each.covered) for each in found} == {(1, 2)}


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("q", ": family\n", "q"),
        ("q", "boy girl\n", "line 1"),
        ("q", "dog dogs\nox 12\n", "line 2"),
        ("q", "dog dogs\n" * 501, "line 501"),
        ("q", ": family\nboy girl son\n", "line 2"),
        ("rel.questions", "good better rough\n", "rel.answers"),
    ],
)
def test_files_without_analogies(tmp_path, name, text, place):
    assert place in input_error(read_analogies, tmp_path / name, text)


LINES = [
    "They play cards on Thursday",
    "",
    "The play was long and they play on",
    "A dog ran off",
    "They play cards on Thursday",
    "Nobody saw the play",
]


@pytest.mark.parametrize("block", [1, 7, 4096])
@pytest.mark.parametrize("count", [3, 100])
def test_nearest_tokens_against_all_one_by_one(tmp_path, monkeypatch, block, count):
    monkeypatch.setattr(words, "BLOCK_TOKENS", block)
    monkeypatch.setattr(encoder, "POSITIONS", 12)
    tiny = tiny_encoder(tmp_path)
    queries = [
        Occurrence(LINES[0].split(), 1),
        Occurrence(["We", "play", "here"], 1),
        Occurrence(LINES[2].split(), 6),
    ]
    found = nearest_tokens(tiny, queries, text_blocks(tiny, iter(LINES)), count=count)
    encoded = [vectors.double().numpy() for vectors in tiny.encode(map(str.split, LINES))]
    for query, by_row in zip(queries, found, strict=True):
        (own,) = tiny.encode([query.words])
        for row, neighbors in enumerate(by_row):
            wanted = own[row, query.position].double().numpy()
            cosines = {
                (line, position): vector @ wanted / np.linalg.norm(vector) / np.linalg.norm(wanted)
                for line, vectors in enumerate(encoded)
                for position, vector in enumerate(vectors[row])
                if (LINES[line].split(), position) != tuple(query)
            }
            assert len(neighbors) == min(count, len(cosines))
            found = [(line, position) for line, position, _ in neighbors]
            assert len(set(found)) == len(found)
            best = sorted(cosines.values(), reverse=True)[:count]
            assert [cosines[each] for each in found] == pytest.approx(best, abs=1e-5)
            assert [cosine for *_, cosine in neighbors] == pytest.approx(best, abs=1e-5)


def test_the_first_of_equally_near_tokens(tmp_path):
    tiny = tiny_encoder(tmp_path)
    (by_row,) = nearest_tokens(tiny, [Occurrence(["play"], 0)], text_blocks(tiny, LINES), count=4)
    # The token layer knows no context.
    assert [neighbor[:2] for neighbor in by_row[0]] == [(0, 1), (2, 1), (2, 6), (4, 1)]


def test_a_long_sentence_is_cut_around_the_marked_word():
    assert Occurrence(["They", "play", "on"], 1).marked() == "They **play** on"
    words = [str(number) for number in range(30)]
    assert Occurrence(words, 15).marked() == f"… {' '.join(words[5:15])} **15** {' '.join(words[16:26])} …"
