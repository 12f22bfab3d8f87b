from collections import Counter

import numpy as np

from elmo_tasks.common.files import bundled
from elmo_tasks.evaluation.senses import (
    SenseProbe,
    SenseSentence,
    Target,
    read_senses,
    sense_baseline,
    senses_by_frequency,
)
from elmo_tasks.vectors import WordTable
from elmo_tasks.vectors.static_vectors import StaticVectors
from tests.vectors.encoders import tiny_encoder

TRAIN = read_senses(str(bundled("fixtures/evaluation/wsd_train.jsonl")))
DEV = read_senses(str(bundled("fixtures/evaluation/wsd_dev.jsonl")))


def one(lemma: str, sense: str, text: str, place: int = 0) -> SenseSentence:
    return SenseSentence(text.split(), [Target(place, place + 1, lemma, (sense,))])


def test_against_averages_and_cosines_by_hand(tmp_path):
    encoder = tiny_encoder(tmp_path)

    def vectors(sentences: list[SenseSentence], row: int) -> list[tuple[str, str, np.ndarray]]:
        encoded = encoder.encode(sentence.words for sentence in sentences)
        return [
            (target.lemma, target.senses[0], vectors[row, target.start].double().numpy())
            for (_, [target]), vectors in zip(sentences, encoded, strict=True)
        ]

    probe = SenseProbe(encoder=encoder, first_senses={})
    probe.train(TRAIN)
    correct = probe.correct(DEV)
    assert list(correct) == encoder.names
    for row, name in enumerate(encoder.names):
        train, dev = vectors(TRAIN, row), vectors(DEV, row)
        means = {
            key: np.mean([vector for *other, vector in train if tuple(other) == key], axis=0)
            for key in {(lemma, sense) for lemma, sense, _ in train}
        }
        counts = Counter((lemma, sense) for lemma, sense, _ in train)
        expected = 0
        for lemma, sense, vector in dev:
            cosines = {
                own: mean @ vector / np.linalg.norm(mean) / np.linalg.norm(vector)
                for (of, own), mean in means.items()
                if of == lemma
            }
            # Those of equal means are told apart by their frequency.
            order = {own: (-round(cosines[own], 5), -counts[lemma, own]) for own in cosines}
            expected += min(order, key=lambda own: order[own]) == sense
        assert correct[name] == expected


def test_several_senses_and_targets(tmp_path):
    """An occurrence of two senses counts for both; either answer is right."""
    table = StaticVectors(name="t", table=WordTable(["a", "b", "c"], np.eye(3, dtype=np.float32)))
    train = [
        SenseSentence(["x", "a"], [Target(0, 1, "x", ("one", "two"))]),
        SenseSentence(["x", "b"], [Target(0, 1, "x", ("two",))]),
        SenseSentence(["x", "c", "x"], [Target(0, 1, "x", ("three",)), Target(2, 3, "x", ("three",))]),
    ]
    assert senses_by_frequency(train) == {"x": ["two", "three", "one"]}
    probe = SenseProbe(encoder=table, first_senses={})
    probe.train(train)
    # Nearest to a: one; to b: two; to nothing known: the most frequent
    dev = [
        SenseSentence(["a", "x"], [Target(1, 2, "x", ("one",))]),
        SenseSentence(["b", "x"], [Target(1, 2, "x", ("three", "two"))]),
        SenseSentence(["z", "x"], [Target(1, 2, "x", ("two",))]),
        SenseSentence(["z", "x"], [Target(1, 2, "x", ("one",))]),
    ]
    assert probe.correct(dev) == {"t": 3}


def test_a_lemma_without_training_has_its_first_sense(tmp_path):
    encoder = tiny_encoder(tmp_path)
    dev = [one("new", "first", "new words"), one("other", "any", "other words"), *DEV[:1]]
    counts = Counter()
    for first in ({}, {"new": "first", "bank": "never"}):
        probe = SenseProbe(encoder=encoder, first_senses=first)
        probe.train(TRAIN)
        counts[len(first)] = probe.correct(dev)["layer 0"]
        assert sense_baseline(TRAIN, dev, first) == (1 + bool(first), 2, 3)
    assert counts[2] == counts[0] + 1


def test_baseline():
    expected = sum(
        sentence.targets[0].senses[0] == {"bank": "money", "match": "game", "spring": "season"}[lemma]
        for sentence in DEV
        for lemma in [sentence.targets[0].lemma]
    )
    assert sense_baseline(TRAIN, DEV, {}) == (expected, 0, 12)
