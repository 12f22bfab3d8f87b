import random
from collections import Counter
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


def report(counts):
    """The output of the script."""

    def line(*labels):
        scores = (100 * value for value in counts.scores(labels).values())
        return "precision: {:6.2f}%; recall: {:6.2f}%; FB1: {:6.2f}".format(*scores)

    found = [counts.gold.total(), counts.predicted.total(), counts.correct.total()]
    lines = [
        "processed {} tokens with {} phrases; found: {} phrases; correct: {}.".format(counts.tokens, *found),
        f"accuracy: {100 * counts.correct_tags / counts.tokens:6.2f}%; {line(*counts.labels())}",
        *(f"{label:>17}: {line(label)}  {counts.predicted[label]}" for label in counts.labels()),
    ]
    return "".join(f"{each}\n" for each in lines)


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


def test_the_published_output():
    """
    https://www.clips.uantwerpen.be/conll2000/chunking/output.html; the counts were worked out from
    its percentages. Later versions of the script add the number of chunks found to each line.
    """
    counts = ChunkCounts(
        tokens=961,
        correct_tags=808,
        gold=Counter(ADJP=6, ADVP=8, NP=262, PP=90, SBAR=6, VP=87),
        predicted=Counter(ADJP=1, ADVP=11, NP=317, PP=107, SBAR=3, VP=100),
        correct=Counter(ADVP=5, NP=206, PP=89, SBAR=2, VP=69),
    )
    assert report(counts) == (
        "processed 961 tokens with 459 phrases; found: 539 phrases; correct: 371.\n"
        "accuracy:  84.08%; precision:  68.83%; recall:  80.83%; FB1:  74.35\n"
        "             ADJP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1\n"
        "             ADVP: precision:  45.45%; recall:  62.50%; FB1:  52.63  11\n"
        "               NP: precision:  64.98%; recall:  78.63%; FB1:  71.16  317\n"
        "               PP: precision:  83.18%; recall:  98.89%; FB1:  90.36  107\n"
        "             SBAR: precision:  66.67%; recall:  33.33%; FB1:  44.44  3\n"
        "               VP: precision:  69.00%; recall:  79.31%; FB1:  73.80  100\n"
    )


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
