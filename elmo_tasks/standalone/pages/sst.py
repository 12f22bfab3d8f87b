"""The sentiment of sentences: `python predict.py INPUT.jsonl`."""

from elmo_tasks.standalone.pages.words import Model, Record, by_label, main, softmax


def predict(model: Model, record: Record) -> Record:
    """`{"sentence": "..."}` or `{"tokens": [...]}` to the label and the attention to each word."""
    words = model.words(record, "sentence", "tokens").words
    if not words:
        return {"tokens": [], "label": None, "probabilities": {}, "attention": []}
    scores = model.run(model.ids([words]))
    label, probabilities = by_label(model, softmax(scores["logits"][0]))
    attention = scores["attention"][0].tolist()
    return {"tokens": words, "label": label, "probabilities": probabilities, "attention": attention}


if __name__ == "__main__":
    main(predict)
