import random
from itertools import product

import pytest

from elmo_tasks.ner.metric import ChunkCounts, ConllEval

GOLD = [
    ["B-PER", "I-PER", "O", "B-LOC", "O"],
    ["B-ORG", "I-ORG", "I-ORG", "O", "O", "B-PER"],
    ["O", "O", "B-MISC", "O"],
]
PREDICTED = [
    ["B-PER", "I-PER", "O", "B-LOC", "O"],  # both right
    ["B-ORG", "I-ORG", "O", "O", "I-PER", "B-PER"],  # ORG too short; the first PER is too much
    ["O", "O", "B-LOC", "I-LOC"],  # MISC missed, LOC too much
]
TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]


def evaluate(predicted, gold):
    metric = ConllEval()
    metric(predicted, gold)
    return metric


def test_a_worked_example():
    metric = evaluate(PREDICTED, GOLD)
    metrics = metric.get_metric()
    expected = {
        "": (3 / 6, 3 / 5, 6 / 11),
        "-LOC": (1 / 2, 1, 2 / 3),
        "-MISC": (0, 0, 0),
        "-ORG": (0, 0, 0),
        "-PER": (2 / 3, 1, 4 / 5),
    }
    for label, scores in expected.items():
        for name, score in zip(("precision", "recall", "f1"), scores, strict=True):
            assert metrics.pop(name + label) == pytest.approx(score)
    assert metrics == {"accuracy": 11 / 15}


# The script again, one token after the other and with its variables, as a second opinion.


ENDS = {*product("BI", "BO"), *product("E", "EIO")}
STARTS = {*product("BIO", "B"), *product("OE", "I"), *product("EO", "E")}
"""Pairs of prefixes between which a chunk ends, and starts, whatever its type."""


def split(tag):
    return tuple(tag.split("-", 1)) if "-" in tag else (tag, "")


def ends(previous, tag):
    if previous[0] in ("[", "]") or (previous[0], tag[0]) in ENDS:
        return True
    return previous[0] not in ("O", ".") and previous[1] != tag[1]


def starts(previous, tag):
    if tag[0] in ("[", "]") or (previous[0], tag[0]) in STARTS:
        return True
    return tag[0] not in ("O", ".") and previous[1] != tag[1]


def reference(predicted, gold):
    counts, last_gold, last_guess, in_correct = ChunkCounts(), ("O", ""), ("O", ""), False
    for guesses, truths in zip(predicted, gold, strict=True):
        for position, pair in enumerate(zip([*truths, "O"], [*guesses, "O"], strict=True)):
            truth, guess = map(split, pair)
            gold_ends, guess_ends = ends(last_gold, truth), ends(last_guess, guess)
            if in_correct and gold_ends and guess_ends and last_gold[1] == last_guess[1]:
                in_correct = False
                counts.correct[last_gold[1]] += 1
            elif gold_ends != guess_ends or truth[1] != guess[1]:
                in_correct = False
            gold_starts, guess_starts = starts(last_gold, truth), starts(last_guess, guess)
            in_correct = in_correct or (gold_starts and guess_starts and truth[1] == guess[1])
            counts.gold[truth[1]] += gold_starts
            counts.predicted[guess[1]] += guess_starts
            if position < len(truths):
                counts.tokens += 1
                counts.correct_tags += truth == guess
            last_gold, last_guess = truth, guess
    counts.correct[last_gold[1]] += in_correct
    return counts


def test_equals_the_script_on_all_short_pairs():
    for length in (1, 2, 3):
        for gold, predicted in product(product(TAGS, repeat=length), repeat=2):
            assert evaluate([predicted], [gold]).total_counts() == reference([predicted], [gold])


@pytest.mark.parametrize("prefixes", ["OBI", "OBIE", "OBIE[]", "OBIESLU", "OBIE[]SLU"])
def test_equals_the_script_on_random_sentences(prefixes):
    generator = random.Random(prefixes)

    def random_tag():
        prefix = generator.choice(prefixes)
        return prefix if prefix == "O" else f"{prefix}-{generator.choice(('A', 'B', 'A-B'))}"

    for _ in range(2000):
        gold, predicted = [], []
        for _ in range(generator.randint(0, 4)):
            truths = [random_tag() for _ in range(generator.randint(0, 8))]
            keep = generator.random()
            gold.append(truths)
            predicted.append([t if generator.random() < keep else random_tag() for t in truths])
        assert evaluate(predicted, gold).total_counts() == reference(predicted, gold), (gold, predicted)
