"""The class of sentences, or of pairs of sentences: `python predict.py INPUT.jsonl`."""

from typing import Any

import numpy as np

from elmo_tasks.standalone.pages.ngrams import features
from elmo_tasks.standalone.pages.words import Model, Record, by_label, main, softmax


def predict(model: Model, record: Record) -> Record:
    """`{"sentence": "..."}`, or `{"sentence1": "...", "sentence2": "..."}`, or lists of words, to labels."""
    names = {"sentence": "tokens"}
    if model.settings["pairs"]:
        names = {"sentence1": "sentence1_tokens", "sentence2": "sentence2_tokens"}
    texts = [model.words(record, *fields).words for fields in names.items()]
    words = {f"sentence{number}_tokens": text for number, text in enumerate(texts, start=1)}
    if not all(texts):
        nothing: Record = {"labels": []} if "thresholds" in model.settings else {"label": None}
        return {**words, **nothing, "probabilities": {}}
    inputs: dict[str, Any] = model.ids(texts)
    if "ngrams" in model.settings:
        inputs |= features(model.settings, texts)
    logits = model.run(inputs)["logits"][0]
    if "thresholds" not in model.settings:
        label, probabilities = by_label(model, softmax(logits))
        return {**words, "label": label, "probabilities": probabilities}
    each = 1 / (1 + np.exp(-logits))
    reached = each >= np.array(model.settings["thresholds"], np.float32)
    labels = [label for label, reaches in zip(model.labels, reached, strict=True) if reaches]
    return {**words, "labels": labels, "probabilities": by_label(model, each)[1]}


if __name__ == "__main__":
    main(predict)
