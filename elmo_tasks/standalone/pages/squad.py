"""The answers to questions about passages: `python predict.py INPUT.jsonl`."""

import re
from typing import Any

import numpy as np

from elmo_tasks.standalone.pages.words import Model, Record, Words, main

SHOWN, N_BEST, NEAR, STEM = 5, 20, 20, 4
LEAST = np.log(1e-9)
POSITIONS = ("token_start", "token_end", "char_start", "char_end")


def predict(model: Model, record: Record) -> Record:
    """`{"passage": "...", "question": "..."}` to the best answers."""
    passage, question = (pieces(model, model.split(record, name)) for name in ("passage", "question"))
    answers: list[Record] = []
    answerable = None
    if passage.words and question.words:
        answers, answerable = find(model, passage, question)
    top = answers[0] if answers else {"text": "", **dict.fromkeys((*POSITIONS, "probability"))}
    named = {"id": record["id"]} if record.get("id") is not None else {}
    return {
        **named,
        "answer": top["text"],
        **{name: top[name] for name in (*POSITIONS, "probability")},
        "answerable": answerable,
        "n_best": answers[:SHOWN],
    }


def find(model: Model, passage: Words, question: Words) -> tuple[list[Record], float | None]:
    """Returns the best answers, and the probability that the passage tells, if the model knows it."""
    inputs = model.ids([passage.words], "passage_") | model.ids([question.words], "question_")
    scores = model.run(inputs | windows(model, len(passage.words)))
    spans = span_scores(scores["start"][0], scores["end"][0], model.settings["longest_answer"])
    order = np.argsort(-spans, axis=None, kind="stable")[:N_BEST]
    first, more = np.unravel_index(order, spans.shape)
    best, last = spans[first, more], first + more
    answerable = None
    if "odds" in model.settings:
        near = share_near(passage.words, question.words, first[0], last[0])
        features = span_features(best, first, last, scores["evidence"][0], near)
        odds = log_sigmoid(features @ np.array(model.settings["odds"]))
        best, answerable = np.where(best > -np.inf, odds[:, 0], best), float(np.exp(odds[0, 1]))
    answers = [
        answer(passage, int(start), int(end), float(np.exp(score)))
        for score, start, end in zip(best, first, last, strict=True)
        if score > -np.inf
    ]
    if "no_answer" in scores:
        probability = float(np.exp(scores["no_answer"][0]))
        answers.append({"text": "", **dict.fromkeys(POSITIONS), "probability": probability})
        answers.sort(key=lambda each: -each["probability"])
    return answers, answerable


def answer(passage: Words, first: int, last: int, probability: float) -> Record:
    start, end = passage.offsets[first][0], passage.offsets[last][1]
    positions = dict(zip(POSITIONS, (first, last + 1, start, end), strict=True))
    return {"text": passage.text[start:end], **positions, "probability": probability}


def pieces(model: Model, text: Words) -> Words:
    """Splits words further, at hyphens and other marks."""
    if model.settings["pieces"] is None:
        return text
    found = [
        (piece.group(), (start + piece.start(), start + piece.end()))
        for word, (start, _) in zip(text.words, text.offsets, strict=True)
        for piece in re.finditer(model.settings["pieces"], word)
    ]
    return Words(text.text, [word for word, _ in found], [span for _, span in found])


def windows(model: Model, tokens: int) -> dict[str, Any]:
    """
    Returns the tokens of each window, `(windows, size)`, -1 after the end, and for each token its place among
    those of all windows: in the middle of an overlap, the next window takes over.
    """
    size, overlap = model.settings["window"], model.settings["overlap"]
    step = size - overlap
    count = 1 + max(0, -(-(tokens - size) // step))
    size = min(size, tokens)
    indices = np.arange(tokens)
    inside = np.arange(count)[:, None] * step + np.arange(size)
    window = np.clip((indices - overlap // 2) // step, 0, max(0, (tokens - overlap - 1) // step))
    places = window * size + indices - window * step if count > 1 else indices
    return {"windows": np.where(inside < tokens, inside, -1), "places": places}


def span_scores(start: Any, end: Any, longest: int) -> Any:
    """Index `[i, k]` is the span of `k + 1` tokens that starts at token `i`."""
    padded = np.concatenate([end, np.full(longest - 1, -np.inf, end.dtype)])
    return start[:, None] + np.lib.stride_tricks.sliding_window_view(padded, longest)


def span_features(best: Any, first: Any, last: Any, evidence: Any, near: float) -> Any:
    """
    Returns for each span its log probability, its margin to the best other one, and for the question the
    margin to the best distant one, the evidence, the share of its words near the answer, and 1.
    """
    scores = np.maximum(best, LEAST)
    apart = (first > last[0]) | (last < first[0])
    others = np.where(np.arange(len(scores)) == 0, scores[1:2], scores[:1])
    distant = np.where(apart, scores, scores[-1]).max()
    of_question = np.broadcast_to([scores[0] - distant, evidence, near, 1.0], (len(scores), 4))
    return np.concatenate([np.stack([scores, scores - others], axis=1), of_question], axis=1)


def share_near(passage: list[str], question: list[str], first: int, last: int) -> float:
    stems = {word[:STEM].lower() for word in passage[max(0, first - NEAR) : last + NEAR + 1]}
    asked = [word[:STEM].lower() for word in question if len(word) >= STEM]
    return sum(stem in stems for stem in asked) / len(asked) if asked else 0.0


def log_sigmoid(odds: Any) -> Any:
    return -np.logaddexp(0, -odds)


if __name__ == "__main__":
    main(predict)
