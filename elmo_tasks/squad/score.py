"""Scores predictions as the official scripts do: `python -m elmo_tasks.squad.score DATA PREDICTIONS`."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo_tasks.data.formats.questions import read_good_questions
from elmo_tasks.data.input_files import InputError, input_files, read_json
from elmo_tasks.squad.metric import ANSWER_KINDS, SquadMetric


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m elmo_tasks.squad.score", description=__doc__)
    parser.add_argument("data", metavar="DATA", help="JSON of SQuAD")
    parser.add_argument("predictions", metavar="PREDICTIONS", help='JSON: {"id": "answer", ...}')
    files = parser.parse_args(arguments)
    try:
        print(report(files.data, files.predictions))
    except (InputError, OSError) as error:
        sys.exit(f"error: {error}")


def report(data_file: str, predictions_file: str) -> str:
    """
    Returns the output of evaluate-v1.1.py or evaluate-v2.0.py, to the character. The `version` of the data
    chooses the script; data without one, such as JSON Lines, are of 2.0 if they have questions with an answer
    and without. With 1.1, a question without a prediction is named on stderr, and counts as wrong; with 2.0
    it is an `InputError`, and with 1.1 a question without an answer.
    """
    files = input_files(predictions_file)
    predictions = read_json(files[0]) if len(files) == 1 else None
    if not isinstance(predictions, dict) or not all(isinstance(text, str) for text in predictions.values()):
        expected = 'one file with an object: {"id": "answer", ...}'
        raise InputError(f"the predictions must be {expected}", where=predictions_file)
    questions = read_good_questions(data_file)
    version = _version(input_files(data_file)[0])
    # The data of a test set have no answers at all.
    has_both = len({bool(question.answers) for question in questions}) > 1
    metric = SquadMetric("2.0" if version.endswith("2.0") or (has_both and not version) else "1.1")
    for question in questions:
        if metric.version == "1.1" and not question.answers:
            what = f"the question {question.id} has no answer, which only version 2.0 allows"
            raise InputError(what, where=data_file, remedy='add "version": "v2.0" to data of SQuAD 2.0')
        if question.id in predictions:
            metric(predictions[question.id], [answer.text for answer in question.answers or []])
        elif metric.version == "1.1":
            print(f"Unanswered question {question.id} will receive score 0.", file=sys.stderr)
            metric.skip()
        else:
            raise InputError(f"the question {question.id} has no prediction", where=predictions_file)
    total, exact, f1 = metric.scores(scale=100.0)
    if metric.version == "1.1":
        return json.dumps({"exact_match": exact, "f1": f1})
    scores = {"exact": exact, "f1": f1, "total": total}
    for kind in ANSWER_KINDS:
        total, exact, f1 = metric.scores(kind, scale=100.0)
        if total:
            scores |= {f"{kind}_exact": exact, f"{kind}_f1": f1, f"{kind}_total": total}
    return json.dumps(scores, indent=2)


def _version(file: Path) -> str:
    try:
        content = read_json(file)
    except InputError:  # a record a line, or Parquet
        return ""
    return str(content.get("version", "")) if isinstance(content, dict) else ""


if __name__ == "__main__":
    main()
