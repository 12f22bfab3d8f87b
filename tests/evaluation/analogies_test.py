import numpy as np
import pytest
import torch

from elmo_tasks.common.files import bundled
from elmo_tasks.evaluation import analogies
from elmo_tasks.evaluation.analogies import METHODS, Accuracy, Question, accuracies, read_questions, solve
from elmo_tasks.vectors.encoder import WordVectors
from tests.errors import input_error

WORDS = [f"w{number}" for number in range(15)]


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
    monkeypatch.setattr(analogies, "COSINES_AT_ONCE", cosines)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    solved = solve(torch.from_numpy(table), torch.tensor(questions()))
    for method in METHODS:
        expected = [
            by_hand(unit, question, list(range(15)), method) == question[3] for question in questions()
        ]
        assert solved[method].tolist() == expected
        assert 0 < sum(expected) < len(expected)


def test_accuracies_by_section_over_the_covered_questions(table):
    """Neither an unknown word nor one outside of the vocabulary is an answer."""
    sections = ["capitals", "gram1-plural", "capitals", "family"]
    asked = [
        Question(sections[i % 4], tuple(WORDS[word] for word in question))
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
    for method in METHODS:
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
    question = [Question("s", ("Athens", "Greece", "Paris", "France"))]
    words = [*names, "france", "paris"]
    vectors = WordVectors(
        "x", torch.tensor([*table, table[3], table[2]]).float(), torch.ones(7, dtype=torch.bool)
    )
    without_capitals = ["Athens", "Greece", "paris", "france", "other"]
    for vocabulary in (names, ["france", "paris", *names], [*names, "paris"], without_capitals):
        found = accuracies(vectors, words, question, vocabulary)
        assert [(one.correct, one.covered) for one in found] == [(1, 1)] * 4
    # Another vector, so another word: as good an answer as the right one, and before it
    vectors.vectors[5] *= 2
    assert [one.correct for one in accuracies(vectors, words, question, ["france", *names])] == [0] * 4


def test_nothing_covered():
    vectors = WordVectors("x", torch.zeros(15, 3), torch.zeros(15, dtype=torch.bool))
    found = accuracies(vectors, WORDS, [Question("s", ("w1", "w2", "w3", "w4"))], WORDS)
    assert found == [Accuracy(section, method, 0, 0, 1) for method in METHODS for section in ("s", "all")]


def test_questions_have_their_sections(tmp_path):
    (tmp_path / "q").write_text(": family\nboy girl son daughter\n\n: gram1 plural\na b c d\n")
    assert read_questions(str(tmp_path / "q")) == [
        Question("family", ("boy", "girl", "son", "daughter")),
        Question("gram1 plural", ("a", "b", "c", "d")),
    ]
    assert len(read_questions(str(bundled("fixtures/evaluation/analogies.txt")))) == 32


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
    assert read_questions(str(tmp_path)) == [
        Question("I01 [noun]", ("dog", "dogs", "ox", "oxen", "oxes")),
        Question("I01 [noun]", ("ox", "oxen", "dog", "dogs")),
        Question("msr", ("good", "better", "rough", "rougher")),
        Question("JJ_JJR", ("good", "better", "rough", "rougher")),
        Question("NN_NNS", ("dog", "dogs", "cat", "cats")),
    ]


@pytest.mark.parametrize("section", ["gram1-plural", "I01 [noun]", "D02 [un+adj]", "NN_NNS", "VBD_VBZ"])
def test_syntactic_sections(section):
    """By Google's, BATS' and MSR's names."""
    asked = [Question(name, ("w1", "w2", "w3", "w4")) for name in (section, "NN-capitals")]
    vectors = WordVectors("x", torch.zeros(15, 3), torch.zeros(15, dtype=torch.bool))
    totals = {found.section: found.total for found in accuracies(vectors, WORDS, asked, WORDS)}
    assert totals == {section: 1, "NN-capitals": 1, "semantic": 1, "syntactic": 1, "all": 2}


def test_any_variant_is_right():
    words = ["dog", "dogs", "ox", "oxen", "oxes", "other"]
    vectors = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, -1, 0], [0, 1, 1], [0, -1, 0]]).float()
    asked = [Question("s", ("dog", "dogs", "ox", *answers)) for answers in (["oxen"], ["oxen", "oxes"])]
    found = accuracies(WordVectors("x", vectors, torch.ones(6, dtype=torch.bool)), words, asked, words)
    assert {(each.correct, each.covered) for each in found} == {(1, 2)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "q: found no question"),
        (": family\n", "q: found no question"),
        ("boy girl\n", "line 1: found 'boy girl'"),
        ("dog dogs\nox /\n", "line 2: found 'ox /'"),
        ("dog dogs\nox 12\n", "line 2: found 'ox 12'"),
        ("dog dogs\n" * 501, "q: found 501 pairs"),
        (": family\nboy girl son\n", "line 2: found 'boy girl son'"),
    ],
)
def test_errors(tmp_path, text, message):
    assert message in input_error(read_questions, tmp_path / "q", text)


def test_questions_without_their_answers(tmp_path):
    message = input_error(read_questions, tmp_path / "rel.questions", "good better rough\n")
    assert "rel.answers: found no file, expected one beside rel.questions" in message
