"""A text in which some words stand in the same places as others."""

import random


def sentences(number=300, seed=3):
    """Animals eat, machines are repaired: `cat` and `dog`, `engine` and `pump` have the same neighbours."""
    draw = random.Random(seed)
    made = []
    for _ in range(number):
        if draw.random() < 0.5:
            made.append(
                ["the", draw.choice(["cat", "dog"]), draw.choice(["eats", "sleeps", "plays"]), "outside"]
            )
        else:
            made.append(
                ["we", draw.choice(["repair", "start", "stop"]), "this", draw.choice(["engine", "pump"])]
            )
    return made


def similarity(table, one, other):
    rows = [table.vectors[table.words.index(word)] for word in (one, other)]
    return float(rows[0] @ rows[1] / ((rows[0] @ rows[0]) * (rows[1] @ rows[1])) ** 0.5)
