import json
import random
from collections import Counter

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.squad.score import main, report
from tests.squad.official import OFFICIAL, WORDS


def evaluate_1(dataset, predictions):
    """What evaluate-v1.1.py computes, in its order; its F1 without common words is 0."""

    def f1_score(prediction, truth):
        found, gold = (OFFICIAL.normalize_answer(text).split() for text in (prediction, truth))
        same = sum((Counter(found) & Counter(gold)).values())
        if same == 0:
            return 0
        precision, recall = 1.0 * same / len(found), 1.0 * same / len(gold)
        return (2 * precision * recall) / (precision + recall)

    f1 = exact = total = 0
    for question in questions_of(dataset):
        total += 1
        if question["id"] not in predictions:
            continue
        truths = [answer["text"] for answer in question["answers"]]
        guess = predictions[question["id"]]
        exact += max(OFFICIAL.normalize_answer(guess) == OFFICIAL.normalize_answer(truth) for truth in truths)
        f1 += max(f1_score(guess, truth) for truth in truths)
    return {"exact_match": 100.0 * exact / total, "f1": 100.0 * f1 / total}


def evaluate_2(dataset, predictions):
    """What evaluate-v2.0.py computes, in its order."""
    exact, f1 = {}, {}
    for question in questions_of(dataset):
        gold = [a["text"] for a in question["answers"] if OFFICIAL.normalize_answer(a["text"])] or [""]
        guess = predictions[question["id"]]
        exact[question["id"]] = max(OFFICIAL.compute_exact(guess, truth) for truth in gold)
        f1[question["id"]] = max(OFFICIAL.compute_f1(guess, truth) for truth in gold)
    has_answer = OFFICIAL.make_qid_to_has_ans(dataset["data"])
    result = {}
    for kind, ids in (
        ("", list(exact)),
        ("HasAns_", [id for id in exact if has_answer[id]]),
        ("NoAns_", [id for id in exact if not has_answer[id]]),
    ):
        if ids:
            for name, scores in (("exact", exact), ("f1", f1)):
                # One after the other; `sum` of newer Pythons is more exact than the script was.
                total = 0
                for id in ids:
                    total += scores[id]
                result[kind + name] = 100.0 * total / len(ids)
            result[f"{kind}total"] = len(ids)
    return result


def questions_of(dataset):
    return [q for article in dataset["data"] for p in article["paragraphs"] for q in p["qas"]]


def published(version: str, seed: int):
    """A data set and predictions of it: right, partly right, wrong, empty."""
    generator = random.Random(seed)

    def text(least):
        return " ".join(generator.choices(WORDS, k=generator.randint(least, 6)))

    paragraphs, predictions = [], {}
    for number in range(40):
        passage, qas = "", []
        for question in range(generator.randint(1, 6)):
            answers = [] if version == "v2.0" and generator.random() < 0.3 else [text(1) for _ in range(3)]
            found = []
            for answer in answers:
                found.append({"text": answer, "answer_start": len(passage)})
                passage += f"{answer} "
            entry = {"id": f"{number}-{question}", "question": "q", "answers": found}
            if not answers:
                entry["is_impossible"] = True
            qas.append(entry)
            guesses = [text(0), *answers, "", *(a + generator.choice([".", " cat", "the "]) for a in answers)]
            predictions[entry["id"]] = generator.choice(guesses)
        paragraphs.append({"context": passage or "x", "qas": qas})
    return {"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}, predictions


@pytest.mark.parametrize("version", ["1.1", "v2.0"])
@pytest.mark.parametrize("seed", range(5))
def test_files_of_predictions_to_the_last_digit(tmp_path, capsys, version, seed):
    dataset, predictions = published(version, seed)
    expected = evaluate_2(dataset, predictions) if version == "v2.0" else None
    if version == "1.1":
        for id in list(predictions)[::7]:
            del predictions[id]
        expected = evaluate_1(dataset, predictions)
    for name, content in (("data", dataset), ("predictions", predictions)):
        (tmp_path / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    found = report(str(tmp_path / "data"), str(tmp_path / "predictions"))
    assert found == json.dumps(expected, indent=2 if version == "v2.0" else None)
    assert 0 < json.loads(found)["f1"] < 100
    missing = len(questions_of(dataset)) - len(predictions)
    assert capsys.readouterr().err.count("Unanswered question") == missing


def write(folder, dataset, predictions):
    for name, content in (("data", dataset), ("predictions", predictions)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return str(folder / "data"), str(folder / "predictions")


def test_what_is_printed_is_the_report(tmp_path, capsys):
    files = write(tmp_path, *published("v2.0", 1))
    main(files)
    assert capsys.readouterr().out == report(*files) + "\n"


def test_what_is_wrong_is_one_line(tmp_path, capsys):
    data, _ = write(tmp_path, *published("v2.0", 1))
    with pytest.raises(SystemExit, match=r"^error: .*none.json"):
        main([data, str(tmp_path / "none.json")])
    of_1, predictions = write(tmp_path, {**published("v2.0", 1)[0], "version": "1.1"}, {})
    with pytest.raises(SystemExit, match=r'without an answer, expected "version": "v2\.0" in the data'):
        main([of_1, predictions])
    with pytest.raises(SystemExit) as ended:
        main([data])
    assert ended.value.code == 2
    assert "usage: python -m elmo_tasks.squad.score" in capsys.readouterr().err


def test_kinds_that_do_not_occur_are_left_out(tmp_path):
    dataset, predictions = published("v2.0", 0)
    for paragraph in dataset["data"][0]["paragraphs"]:
        paragraph["qas"] = [question for question in paragraph["qas"] if question["answers"]]
    found = json.loads(report(*write(tmp_path, dataset, predictions)))
    assert list(found) == [
        *("exact", "f1", "total"),
        *(f"HasAns_{name}" for name in ("exact", "f1", "total")),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "predictions: found no prediction for 0-0, expected one for each question"),
        ("[]", "predictions: found something else, expected an object"),
        ('{"a": 1}', "predictions: found something else, expected an object"),
        ("{", "predictions, line 1: found no JSON"),
    ],
)
def test_wrong_predictions(tmp_path, content, message):
    files = write(tmp_path, *published("v2.0", 0))
    (tmp_path / "predictions").write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        report(*files)


def test_predictions_in_several_files(tmp_path):
    data, _predictions = write(tmp_path, *published("v2.0", 0))
    (tmp_path / "folder").mkdir()
    for name in ("a", "b"):
        (tmp_path / "folder" / name).write_text("{}")
    with pytest.raises(ConfigurationError, match="folder: found 2 files, expected one"):
        report(data, str(tmp_path / "folder"))
