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


class Reference:
    """`conlleval` on a file whose lines are the pairs given to `line`."""

    def __init__(self):
        self.last_gold, self.last_gold_type = "O", ""
        self.last_guess, self.last_guess_type = "O", ""
        self.in_correct = False
        self.tokens = self.correct_tags = 0
        self.gold, self.guessed, self.correct = {}, {}, {}

    @staticmethod
    def split(tag):
        return tuple(tag.split("-", 1)) if "-" in tag else (tag, "")

    @staticmethod
    def end_of_chunk(prev_tag, tag, prev_type, type_):
        if prev_tag in ("[", "]") or (prev_tag, tag) in ENDS:
            return True
        return prev_tag not in ("O", ".") and prev_type != type_

    @staticmethod
    def start_of_chunk(prev_tag, tag, prev_type, type_):
        if tag in ("[", "]") or (prev_tag, tag) in STARTS:
            return True
        return tag not in ("O", ".") and prev_type != type_

    def line(self, gold, guess, boundary=False):
        guess, guess_type = self.split(guess)
        gold, gold_type = self.split(gold)
        gold_edge = (self.last_gold, gold, self.last_gold_type, gold_type)
        guess_edge = (self.last_guess, guess, self.last_guess_type, guess_type)
        gold_ends, guess_ends = self.end_of_chunk(*gold_edge), self.end_of_chunk(*guess_edge)
        if self.in_correct:
            if gold_ends and guess_ends and self.last_guess_type == self.last_gold_type:
                self.in_correct = False
                self.add(self.correct, self.last_gold_type)
            elif gold_ends != guess_ends or guess_type != gold_type:
                self.in_correct = False
        gold_starts, guess_starts = self.start_of_chunk(*gold_edge), self.start_of_chunk(*guess_edge)
        if gold_starts and guess_starts and guess_type == gold_type:
            self.in_correct = True
        if gold_starts:
            self.add(self.gold, gold_type)
        if guess_starts:
            self.add(self.guessed, guess_type)
        if not boundary:
            if gold == guess and gold_type == guess_type:
                self.correct_tags += 1
            self.tokens += 1
        self.last_gold, self.last_gold_type = gold, gold_type
        self.last_guess, self.last_guess_type = guess, guess_type

    def close(self):
        if self.in_correct:
            self.add(self.correct, self.last_gold_type)

    @staticmethod
    def add(counts, type_):
        counts[type_] = counts.get(type_, 0) + 1


def reference(predicted, gold):
    script = Reference()
    for guesses, truths in zip(predicted, gold, strict=True):
        for guess, truth in zip(guesses, truths, strict=True):
            script.line(truth, guess)
        script.line("O", "O", boundary=True)
    script.close()
    return ChunkCounts(
        tokens=script.tokens,
        correct_tags=script.correct_tags,
        gold=Counter(script.gold),
        predicted=Counter(script.guessed),
        correct=Counter(script.correct),
    )


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
