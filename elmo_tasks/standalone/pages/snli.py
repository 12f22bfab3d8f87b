"""Whether a premise entails a hypothesis: `python predict.py INPUT.jsonl`."""

from elmo_tasks.standalone.pages.words import Model, Record, by_label, main, softmax


def predict(model: Model, record: Record) -> Record:
    """`{"premise": "...", "hypothesis": "..."}`, or lists of words, to the label and the alignments."""
    premise, hypothesis = (
        model.words(record, name, f"{name}_tokens").words for name in ("premise", "hypothesis")
    )
    tokens = {"premise_tokens": premise, "hypothesis_tokens": hypothesis}
    alignments: Record = {"premise_to_hypothesis": [], "hypothesis_to_premise": []}
    if not (premise and hypothesis):
        return {"label": None, "probabilities": {}, **tokens, **alignments}
    scores = model.run(model.ids([premise, hypothesis]))
    label, probabilities = by_label(model, softmax(scores["logits"][0]))
    rows, columns = len(premise), len(hypothesis)
    alignments["premise_to_hypothesis"] = scores["premise_to_hypothesis"][0, :rows, :columns].tolist()
    alignments["hypothesis_to_premise"] = scores["hypothesis_to_premise"][0, :columns, :rows].tolist()
    return {"label": label, "probabilities": probabilities, **tokens, **alignments}


if __name__ == "__main__":
    main(predict)
