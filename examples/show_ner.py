"""Shows the scores and the first predictions of a run: `python examples/show_ner.py METRICS PREDICTIONS`."""

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_tasks.data.input_files import read_json, read_json_lines

SHOWN = 3


def show(metrics_file: Path, predictions_file: Path) -> None:
    """Prints the metrics of `allennlp evaluate` and the first lines of `allennlp predict`."""
    print(f"\nScores ({metrics_file})")
    print("\n".join(score_table(read_json(metrics_file))))
    print(f"\nThe first {SHOWN} predictions ({predictions_file})")
    for _, prediction in islice(read_json_lines(predictions_file), SHOWN):
        print("\n  " + " ".join(prediction["tokens"]))
        for entity in prediction["entities"]:
            print(f"    {entity['type']:<6} {entity['text']}  ({entity['probability']:.2f})")
        if not prediction["entities"]:
            print("    no entity")


def score_table(metrics: dict[str, Any]) -> list[str]:
    """Returns a row for each type, in percent, and the overall scores."""
    types = sorted(name.removeprefix("f1-") for name in metrics if name.startswith("f1-"))
    columns = ("precision", "recall", "f1")
    rows = [(label, [metrics[f"{column}-{label}"] for column in columns]) for label in types]
    rows.append(("all", [metrics[column] for column in columns]))
    width = max(len(label) for label, _ in rows)
    return [
        " " * width + "".join(f"{column:>11}" for column in columns),
        *(f"{label:<{width}}" + "".join(f"{100 * score:>11.2f}" for score in row) for label, row in rows),
        f"token accuracy {100 * metrics['accuracy']:.2f}",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", metavar="METRICS", type=Path, help="JSON of allennlp evaluate")
    parser.add_argument(
        "predictions", metavar="PREDICTIONS", type=Path, help="JSON Lines of allennlp predict"
    )
    arguments = parser.parse_args()
    show(arguments.metrics, arguments.predictions)
