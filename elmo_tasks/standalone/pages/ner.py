"""The entities of sentences: `python predict.py INPUT.jsonl`."""

from itertools import pairwise
from typing import Any

import numpy as np

from elmo_tasks.data.line_starts import line_starts
from elmo_tasks.ner.reading import as_read
from elmo_tasks.standalone.pages.words import Model, Record, main

Span = tuple[int, int, str, float]
"""The words `[start, end)` of an entity, its type, and its probability."""


def predict(model: Model, record: Record) -> Record:
    """`{"sentence": "..."}` or `{"tokens": [...]}` to the entities; a line of a list is a text of its own."""
    text, words, offsets = model.words(record, "sentence", "tokens")
    tags, entities = ["O"] * len(words), []
    starts = line_starts(text, offsets) if words else []
    for first, last in pairwise([*starts, len(words)]):
        for start, end, label, probability in find(model, words[first:last]):
            start, end = first + start, first + end
            tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
            characters = offsets[start][0], offsets[end - 1][1]
            entities.append(
                {
                    "text": text[slice(*characters)],
                    "type": label,
                    "token_start": start,
                    "token_end": end,
                    "char_start": characters[0],
                    "char_end": characters[1],
                    "probability": probability,
                }
            )
    return {"tokens": words, "tags": tags, "entities": entities}


def find(model: Model, words: list[str]) -> list[Span]:
    emissions = model.run(model.ids([as_read(words, model.settings["ranks"])]))["emissions"][0].astype(float)
    crf = {name: np.array(scores, float) for name, scores in model.settings["crf"].items()}
    crf = {name: np.where(scores < -1e3, -np.inf, scores) for name, scores in crf.items()}
    best = viterbi(emissions, **crf)
    alpha, beta, log_z = lattice(emissions, **crf)
    rows = np.arange(len(best))
    # The score of the best tags from the first word up to each
    steps = crf["transitions"][best[:-1], best[1:]] + emissions[rows[1:], best[1:]]
    path = np.concatenate([[0.0], np.cumsum(steps)])
    before, after = alpha[rows, best] - path, beta[rows, best] + path - log_z
    spans: list[Span] = []
    start = 0
    for position, tag in enumerate(model.labels[index] for index in best):
        prefix, _, label = tag.partition("-")
        if prefix in ("B", "U"):
            start = position
        if prefix in ("L", "U"):
            probability = min(1.0, float(np.exp(before[start] + after[position])))
            spans.append((start, position + 1, label, probability))
    return spans


def viterbi(emissions: Any, start: Any, end: Any, transitions: Any) -> Any:
    """Returns the best tags. *Shape:* `(words, tags)`, `(tags,)`, `(tags,)`, `(tags, tags)` to `(words,)`."""
    scores, pointers = start + emissions[0], []
    for emission in emissions[1:]:
        # (from, to)
        steps = scores[:, None] + (transitions + emission)
        pointers.append(steps.argmax(axis=0))
        scores = steps.max(axis=0)
    tags = [(scores + end).argmax()]
    for pointer in reversed(pointers):
        tags.append(pointer[tags[-1]])
    return np.array(tags[::-1])


def lattice(emissions: Any, start: Any, end: Any, transitions: Any) -> tuple[Any, Any, Any]:
    """Returns the log of the sums over all tags up to each word, over all after it, and over all."""
    alpha, beta = [start + emissions[0]], [end]
    for emission in emissions[1:]:
        alpha.append(log_sum(alpha[-1][:, None] + transitions, axis=0) + emission)
    for emission in emissions[:0:-1]:
        beta.append(log_sum(transitions + (emission + beta[-1]), axis=1))
    return np.array(alpha), np.array(beta[::-1]), log_sum(alpha[-1] + end, axis=0)


def log_sum(scores: Any, axis: int) -> Any:
    return np.logaddexp.reduce(scores, axis=axis)


if __name__ == "__main__":
    main(predict)
