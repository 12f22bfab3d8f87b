import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.input_files import InputError
from elmo_tasks.page import words
from elmo_tasks.page.words import WordsInContext, read_corpus
from elmo_tasks.vectors import VectorTable
from elmo_tasks.vectors.encoder import BiLmEncoder, StaticVectors
from tests.elmo.files import frozen, random_bilm

FORM = {"word": "cat", "sentence": "The cat sat."}


@pytest.fixture(scope="module")
def explorer():
    table = VectorTable(["cat", "mat", "dog"], np.array([[1, 0], [0, 1], [1, 0.5]], dtype=np.float32))
    return WordsInContext(
        encoder=BiLmEncoder(bilm=frozen(random_bilm()), mixes={}),
        static=[StaticVectors(name="two.txt", table=table)],
        corpus=["The cat sat .", "A cat ate", "on the mat"],
    )


def test_neighbours(explorer):
    answer = explorer(FORM)
    assert list(answer) == ["neighbours"]
    neighbours = answer["neighbours"]
    assert list(neighbours) == ["layer 0", "layer 1", "layer 2", "average", "two.txt"]
    assert ("A **cat** ate", 2) in [(near.text, near.line) for near in neighbours["average"]]
    others = [near.text for near in neighbours["layer 0"]]
    assert len(others) == 5
    assert set(others) < {".", "A", "The", "ate", "mat", "on", "sat", "the"}
    assert [near.text for near in neighbours["two.txt"]] == ["dog", "mat"]
    assert explorer({"word": "Cat", "sentence": "The cat sat."}) == answer
    assert explorer({"word": "sat", "sentence": "She sat"})["neighbours"]["two.txt"] is None


def test_the_word_in_two_sentences(explorer):
    cosines = explorer(FORM | {"other": "A cat!"})["cosines"]
    assert cosines["layer 0"] == pytest.approx(1)
    assert -1 < cosines["layer 2"] < 0.9999
    assert cosines["two.txt"] == 1
    same = explorer(FORM | {"other": FORM["sentence"]})["cosines"]
    assert list(same.values()) == pytest.approx([1] * 5)
    unknown = explorer({"word": "sat", "sentence": "She sat", "other": "He sat"})["cosines"]
    assert list(unknown) == ["layer 0", "layer 1", "layer 2", "average"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentence": "Cats sat."}, "“A sentence with it” .*“cat”.* Cats sat ."),
        ({"other": "Cats sat."}, "“Another sentence with it” .*“cat”"),
        ({"other": ""}, "“Another sentence with it” .*“cat”"),
        ({"word": "don't", "sentence": "I don't."}, "It is split into: I do n't ."),
        ({"word": " "}, "“A sentence with it” does not have the word “”"),
        ({"sentence": "The cat sat there."}, "“A sentence with it” has 5 words and signs, and 4 at most"),
        ({"other": "The cat sat there."}, "“Another sentence with it” has 5 words and signs, and 4"),
    ],
)
def test_errors(changes, message):
    explorer = WordsInContext(encoder=BiLmEncoder(bilm=frozen(random_bilm()), mixes={}), max_tokens=4)
    with pytest.raises(ConfigurationError, match=message):
        explorer(FORM | {"other": "A cat!"} | changes)


def test_corpora(tmp_path, monkeypatch):
    path = tmp_path / "corpus.txt"
    path.write_text(" a b \n\nc\n")
    assert read_corpus(path) == ["a b", "", "c"]
    monkeypatch.setattr(words, "MAX_WORDS", 2)
    with pytest.raises(InputError, match=r"corpus\.txt .*3"):
        read_corpus(path)
