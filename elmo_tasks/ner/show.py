"""Shows scores and predictions of a run to a person: `python -m elmo_tasks.ner.show METRICS PREDICTIONS`."""

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.json_lines import read_json, read_json_lines

SHOWN = 3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m elmo_tasks.ner.show", description=__doc__)
    parser.add_argument("metrics", metavar="METRICS", type=Path, help="JSON of allennlp evaluate")
    parser.add_argument(
        "predictions", metavar="PREDICTIONS", type=Path, help="JSON Lines of allennlp predict"
    )
    files = parser.parse_args(arguments)
    try:
        show(files.metrics, files.predictions)
    except (InputError, OSError) as error:
        sys.exit(f"error: {error}")


def show(metrics_file: Path, predictions_file: Path) -> None:
    """
    Prints the scores and the first predictions.

    # Raises
    `InputError`: a file is not there, no JSON, or not of `elmo_ner`.
    """
    metrics = read_json(metrics_file)
    if not isinstance(metrics, dict) or not {"precision", "recall", "f1", "accuracy"} <= metrics.keys():
        raise InputError.at(metrics_file, found="other JSON", expected="metrics of elmo_ner")
    print(f"\nScores ({metrics_file})")
    print("\n".join(score_table(metrics)))
    print(f"\nThe first {SHOWN} predictions ({predictions_file})")
    for line, prediction in islice(read_json_lines(predictions_file), SHOWN):
        if not isinstance(prediction, dict) or not {"tokens", "entities"} <= prediction.keys():
            raise InputError.at(
                predictions_file, line, found="other JSON", expected="a prediction of elmo_ner"
            )
        print("\n".join(["", *prediction_lines(prediction)]))


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
    main()
