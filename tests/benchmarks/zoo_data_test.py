"""The sentences that `ner` and `sentence` are trained on, on hand-made ones."""

import gzip
import json
import random

import pytest

from benchmarks import zoo_data
from benchmarks.zoo_data import (
    balanced,
    neighbours,
    numbered,
    questions,
    recased,
    subjects_of,
    valence_of,
)


def tagged(text):
    """Returns the words and tags of a text such as "Susan/B-PER sings"."""
    return [tuple(f"{word}/O".split("/")[:2]) for word in text.split()]


def test_list_numbers_are_not_in_names():
    name, other = tagged("Susan/B-PER Miller/I-PER won"), tagged("She won")
    found = list(numbered([name, other] * 500))
    longer = [new for new, old in zip(found, [name, other] * 500, strict=True) if new != old]
    assert all(new[0][1] == "O" and any(map(str.isdigit, new[0][0])) for new in longer)
    assert all(new[1:] in (name, other) for new in longer)
    of_names = sum(new[1:] == name for new in longer)
    assert 70 < of_names < 130
    assert 2 < len(longer) - of_names < 25


def test_copies_in_lower_case():
    sentences = [tagged(f"Word{number}/B-LOC") for number in range(12)]
    words = [word for ((word, _),) in recased(sentences)]
    assert [word for word in words if word.islower()] == ["word0", "word5", "word10"]
    assert [word for word in words if not word.islower()] == [f"Word{number}" for number in range(12)]


def test_small_sets_are_repeated():
    large, small = [tagged("Ulm/B-LOC Ulm/B-LOC")] * 3, [tagged("Bonn/B-LOC"), tagged("or")]
    assert list(balanced(map(iter, (large, small)))) == large + small * 6


def test_neighbours_in_a_document(tmp_path):
    long = [f"Sentence number {number} has more than seven words ." for number in range(10)]
    (tmp_path / "lm_open").mkdir()
    with gzip.open(tmp_path / "lm_open/news.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join([*long[:3], "Too short .", long[3], "", *long[4:6], ""]) + "\n")
    documents = " ".join([*long[:3], "Too short .", long[3]]), " ".join(long[4:6])
    expected = [(long[0], long[1], documents[0]), (long[4], long[5], documents[1])]
    assert sorted(neighbours(tmp_path, "news", 9)) == expected
    assert len(neighbours(tmp_path, "news", 1)) == 1


def test_questions_and_the_sentences_of_their_answers(tmp_path, monkeypatch):
    context = "Ana was born in Lisbon in 1950. She moved to Porto with her family in 1960. Yes."
    qas = [
        {"question": question, "answers": [{"answer_start": context.index(answer), "text": answer}]}
        for question, answer in (
            ("When was she born?", "1950"),
            ("Where did she go?", "Porto"),
            ("Is it so?", "Yes"),
        )
    ]
    (tmp_path / "a.json").write_text(
        json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]})
    )
    monkeypatch.setattr(zoo_data, "QUESTIONS", ["a.json"])
    assert sorted(questions(tmp_path)) == [
        ("When was she born?", "Ana was born in Lisbon in 1950."),
        ("Where did she go?", "She moved to Porto with her family in 1960."),
    ]


@pytest.mark.parametrize(
    ("text", "valence"),
    [
        ("A gorgeous film.", "positive"),
        ("It isn't gorgeous at all, and dull.", "negative"),
        ("Dull, but gorgeous.", None),
        ("The bus left.", "neutral"),
    ],
)
def test_the_valence_of_a_text(text, valence):
    assert valence_of(text, {"gorgeous": 3.0, "dull": -1.7}) == valence


def test_documents_of_one_subject():
    draw = random.Random(0)
    letters = "abcdefghijklmnop"
    words = [[f"{kind}{a}{b}" for a in letters for b in letters[:4]] for kind in ("ship", "bread")]
    documents = [" ".join(draw.sample(words[number % 2], 20)) for number in range(400)]
    subjects = subjects_of(documents, 2)
    assert len({*subjects[::2]}) == len({*subjects[1::2]}) == 1
    assert subjects[0] != subjects[1]
