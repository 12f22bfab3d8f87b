"""Shows scores and predictions of a run to a person: `python -m elmo_tasks.ner.show METRICS PREDICTIONS`."""

import json
import sys
from pathlib import Path
from typing import Any

SHOWN = 3


def main(metrics_file: str, predictions_file: str) -> None:
    metrics = json.loads(Path(metrics_file).read_text(encoding="utf-8"))
    print(f"\nScores ({metrics_file})")
    print("\n".join(score_table(metrics)))
    print(f"\nThe first {SHOWN} predictions ({predictions_file})")
    with open(predictions_file, encoding="utf-8") as lines:
        for _, line in zip(range(SHOWN), lines, strict=False):
            print("\n".join(["", *prediction_lines(json.loads(line))]))


def score_table(metrics: dict[str, float]) -> list[str]:
    """One row a type, in percent, the overall scores last."""
    types = sorted(name.removeprefix("f1-") for name in metrics if name.startswith("f1-"))
    columns = ("precision", "recall", "f1")
    rows = [(label, [metrics[f"{column}-{label}"] for column in columns]) for label in types]
    rows.append(("all", [metrics[column] for column in columns]))
    width = max(len(label) for label, _ in rows)
    return [
        " " * width + "".join(f"{column:>11}" for column in columns),
        *(f"{label:<{width}}" + "".join(f"{100 * s:>11.2f}" for s in row) for label, row in rows),
        f"token accuracy {100 * metrics['accuracy']:.2f}",
    ]


def prediction_lines(prediction: dict[str, Any]) -> list[str]:
    """The sentence, and each entity with its probability."""
    entities = [
        f"    {entity['type']:<6} {entity['text']}  ({entity['probability']:.2f})"
        for entity in prediction["entities"]
    ]
    return ["  " + " ".join(prediction["tokens"]), *(entities or ["    no entity"])]


if __name__ == "__main__":
    main(*sys.argv[1:])
