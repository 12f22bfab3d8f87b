"""The metric, and the scores of files, against the official scripts."""

import importlib.util
import json
import random
import string
from pathlib import Path

import allennlp_models
import pytest
from allennlp.common import Params
from allennlp.training.metrics import Metric

from elmo_tasks.data.input_files import InputError
from elmo_tasks.squad.metric import SquadMetric, normalize
from elmo_tasks.squad.score import main, report

TEXT = (
    "the The A an theme a.b the-end THE an' 1,000 U.S. cat cats cat's Zoë ½ “the” — … İstanbul ß $5 % . ' "
    "x_y 猫 a…the \u0301a C++ @ don't \u2013 don\u2019t 0 ٣ a\u00a0b the\u2009cat \u200bthe \x1fthe \tan"
)
WORDS = TEXT.split(" ")


def official_script():
    """allennlp-models' copy of evaluate-v2.0.py; from its file, since its package imports slowly."""
    path = Path(allennlp_models.__file__).parent / "rc/tools/squad.py"
    spec = importlib.util.spec_from_file_location("official_squad", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OFFICIAL = official_script()


def test_normalisation_is_the_official_one():
    generator = random.Random(0)
    letters = string.printable + "".join(WORDS)
    for _ in range(3000):
        text = " ".join(generator.choices(WORDS, k=4)) + "".join(generator.choices(letters, k=5))
        assert normalize(text) == OFFICIAL.normalize_answer(text)


def test_kinds_and_reset():
    metric = Metric.from_params(Params({"type": "elmo_squad", "version": "2.0"}))
    for predicted, gold in (("cat", ["cat"]), ("", []), ("dog", []), ("a big dog", ["dog"])):
        metric(predicted, gold)
    assert metric.get_metric() == {"exact_match": 0.5, "f1": pytest.approx((1 + 1 + 0 + 2 / 3) / 4)}
    metrics = metric.get_metric(reset=True)
    assert metrics["exact_match-HasAns"] == 0.5
    assert metrics["f1-HasAns"] == pytest.approx(5 / 6)
    assert metrics["exact_match-NoAns"] == metrics["f1-NoAns"] == 0.5
    assert metric.get_metric() == {"exact_match": 0.0, "f1": 0.0}
    assert set(SquadMetric().get_metric(reset=True)) == {"exact_match", "f1"}


def evaluate_1(dataset, predictions):
    """Computes the scores of evaluate-v1.1.py, in its order; its F1 without common words is 0."""

    def f1_score(prediction, truth):
        both = OFFICIAL.get_tokens(prediction) and OFFICIAL.get_tokens(truth)
        return OFFICIAL.compute_f1(prediction, truth) if both else 0

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
    """Computes the scores of evaluate-v2.0.py, in its order."""
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
            placed = []
            for answer in answers:
                placed.append({"text": answer, "answer_start": len(passage)})
                passage += f"{answer} "
            entry = {"id": f"{number}-{question}", "question": "q", "answers": placed}
            if not answers:
                entry["is_impossible"] = True
            qas.append(entry)
            guesses = [text(0), *answers, "", *(a + generator.choice([".", " cat", "the "]) for a in answers)]
            predictions[entry["id"]] = generator.choice(guesses)
        paragraphs.append({"context": passage or "x", "qas": qas})
    return {"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}, predictions


def write(folder, dataset, predictions):
    for name, content in (("data", dataset), ("predictions", predictions)):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return str(folder / "data"), str(folder / "predictions")


@pytest.mark.parametrize("version", ["1.1", "v2.0"])
@pytest.mark.parametrize("seed", range(5))
def test_files_of_predictions_to_the_last_digit(tmp_path, capsys, version, seed):
    dataset, predictions = published(version, seed)
    if version == "1.1":
        for id in list(predictions)[::7]:
            del predictions[id]
    expected = (evaluate_1 if version == "1.1" else evaluate_2)(dataset, predictions)
    files = write(tmp_path, dataset, predictions)
    main(files)
    printed = capsys.readouterr()
    assert printed.out == json.dumps(expected, indent=2 if version == "v2.0" else None) + "\n"
    assert 0 < json.loads(printed.out)["f1"] < 100
    assert printed.err.count("Unanswered question") == len(questions_of(dataset)) - len(predictions)


def test_json_lines_have_no_version(tmp_path):
    for version in ("1.1", "v2.0"):
        dataset, predictions = published(version, 2)
        expected = report(*write(tmp_path, dataset, predictions))
        records = [
            json.dumps({**question, "context": paragraph["context"]})
            for paragraph in dataset["data"][0]["paragraphs"]
            for question in paragraph["qas"]
        ]
        (tmp_path / "data").write_text("\n".join(records), encoding="utf-8")
        assert report(str(tmp_path / "data"), str(tmp_path / "predictions")) == expected
    nothing = {"is_impossible": True, "answers": []}
    without = [json.dumps(json.loads(record) | nothing) for record in records]
    (tmp_path / "data").write_text("\n".join(without), encoding="utf-8")
    with pytest.raises(InputError, match=f"{tmp_path / 'data'}: "):
        report(str(tmp_path / "data"), str(tmp_path / "predictions"))


def test_errors_of_the_command_are_one_line(tmp_path):
    data, _ = write(tmp_path, *published("v2.0", 1))
    with pytest.raises(SystemExit, match=r"^error: .*none.json"):
        main([data, str(tmp_path / "none.json")])
    files = write(tmp_path, {**published("v2.0", 1)[0], "version": "1.1"}, {})
    with pytest.raises(SystemExit, match=files[0]):
        main(files)
    for predictions in ({}, {"a": 1}):
        with pytest.raises(SystemExit, match=files[1]):
            main(write(tmp_path, published("v2.0", 1)[0], predictions))
