"""Exported models, run by their own `predict.py`, against the predictors of the archives."""

import ast
import json
import subprocess
import sys

import pytest

from elmo_tasks.archives import open_archive
from elmo_tasks.archives.opening import local_archive
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import export
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.pipeline.trained import task_predictor
from elmo_tasks.standalone.folder import write_model
from tests.classification.linear_test import TRAIN, train
from tests.elmo.onnx_file_test import example
from tests.errors import mentions
from tests.pipeline.archives import write_archive

exports = pytest.mark.slow

TEXTS = [
    "Dr. Leila Farouk doesn't live in Zu\u0308rich (or in the U.S.A.) anymore; she paid $20-30.",
    "ANA SILVA FLEW TO LISBON WITH J.K. ROWLING.",
    "- Ana Silva\n- Omar Haddad, Paris\n\nThey met in\nLondon 😀 yesterday.",
    "Caf\u00e9\u200b ﬁne",
    f"{'x' * 300} <S> Paris",
]
SENTENCES = [{"sentence": text, "id": index} for index, text in enumerate([*TEXTS, "", " \u200b "])]
SENTENCES += [{"tokens": text.split(), "where": "short"} for text in TEXTS] + [{"tokens": []}]
SIDES = list(zip(TEXTS, [*TEXTS[1:], " "], strict=True))
QUESTIONS = [{"passage": first * 2, "question": second} for first, second in SIDES] + [
    {"passage": "", "question": "Who?", "id": "q"}
]


def pairs(first, second):
    plain = [{first: left, second: right} for left, right in SIDES]
    return plain + [{f"{name}_tokens": text.split() for name, text in pair.items()} for pair in plain]


def written(archive, folder):
    pytest.importorskip("onnxscript", reason="ONNX is not installed: make install EXTRAS='onnx'")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("torch.onnx.ops", reason="PyTorch is too old")
    folder.mkdir(parents=True)
    return write_model(open_archive(archive), folder)


def predict(folder, lines):
    (folder / "input.jsonl").write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "predict.py", "input.jsonl"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def is_same(ours, other):
    """Tells whether two JSON values are equal, numbers to 1e-4."""
    if isinstance(ours, dict):
        return list(ours) == list(other) and all(is_same(ours[name], other[name]) for name in ours)
    if isinstance(ours, list):
        return len(ours) == len(other) and all(map(is_same, ours, other))
    return ours == (pytest.approx(other, abs=1e-4) if isinstance(ours, float) else other)


def check(archive, folder, records):
    """Exports an archive, and compares its predictions with those of the archive."""
    written(archive, folder)
    ran = predict(folder, map(json.dumps, records))
    assert ran.returncode == 0, ran.stderr
    outputs = list(map(json.loads, ran.stdout.splitlines()))
    predictor = task_predictor(open_archive(archive))
    for record, output in zip(records, outputs, strict=True):
        expected = predictor.ids(record) | predictor.to_json(predictor.predict_one(record))
        assert is_same(json.loads(json.dumps(expected)), output), record


@exports
@pytest.mark.parametrize("name", ["ner", "snli", "squad"])
def test_models_that_come_with_the_project(tmp_path, name):
    """With the vocabulary of the usual case, a passage of several windows, and calibrated probabilities."""
    path = bundled(f"fixtures/{name}/predict.jsonl")
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    records += {"ner": SENTENCES, "snli": pairs("premise", "hypothesis"), "squad": QUESTIONS}[name]
    if name == "squad":
        passages = " ".join(dict.fromkeys(record["passage"] for record in records))
        records += [{"passage": passages * 3, "question": "Where does the choir rehearse?"}]
    check(local_archive(f"elmo:{name}"), tmp_path / "out", records)


@exports
def test_the_example_of_the_page(tmp_path, monkeypatch, capsys):
    written(local_archive("elmo:ner"), tmp_path / "runs/onnx/ner")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    exec(example("runs/onnx/ner"), {})
    assert mentions(capsys.readouterr().out, "Ana Silva", "PER", "Lisbon", "LOC")


@exports
@pytest.mark.parametrize(
    ("config", "changes", "records"),
    [
        ("sst", {"elmo.layer_norm": True, "elmo.weights": "function", "maxout": 2}, SENTENCES),
        ("sst", {"elmo.placement": "none", "elmo.mix_l2": None}, SENTENCES),
        ("agnews", {"pooling": "last"}, SENTENCES),
        ("agnews", {"several_labels": True}, [{"sentence": text} for text in TEXTS]),
        ("squad", {"no_answer": True, "window": 9, "overlap": 4}, QUESTIONS),
    ],
)
def test_other_settings(tmp_path, config, changes, records):
    """Another mix, maxout, no biLM, the last words, several labels, no answer, short windows."""
    check(write_archive(tmp_path / "run", config, **changes), tmp_path / "out", records)


@exports
@pytest.mark.parametrize("text", [("a",), ("a", "b")])
def test_linear_models(tmp_path, text):
    """N-grams, the scores and the static words of an encoder, of texts and of pairs."""
    english = {"options_file": DEFAULT_OPTIONS, "weight_file": DEFAULT_WEIGHTS, "placement": "input+output"}
    encoder = {"overrides": {f"model.elmo.{name}": value for name, value in english.items()}}
    encoder["sentence_encoder"] = "elmo:sentence"
    rows = [(label, *[words, words[::-1]][: len(text)]) for label, words in TRAIN[:60]]
    train(tmp_path / "run", rows, text=text, **encoder)
    records = SENTENCES if len(text) == 1 else pairs("sentence1", "sentence2")
    check(tmp_path / "run/model.tar.gz", tmp_path / "out", records)


@exports
def test_the_folder(tmp_path):
    """Its modules import NumPy, onnxruntime and each other alone; a bad line has its number."""
    archive = write_archive(tmp_path / "run", "agnews")
    names = written(archive, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(names)
    own = {name.removesuffix(".py") for name in names}
    for path in (tmp_path / "out").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                modules = [node.module] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names]
                others = {module.split(".")[0] for module in modules} - sys.stdlib_module_names
                assert others <= own | {"numpy", "onnxruntime"}
    for line, message in [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"sentence": 1}', '"tokens": a list of strings'),
        ('{"tokens": "a b"}', '"tokens" is not a list of strings'),
    ]:
        ran = predict(tmp_path / "out", ['{"sentence": "fine"}', "", line])
        assert len(ran.stdout.splitlines()) == ran.returncode == 1
        assert mentions(ran.stderr, "error: input.jsonl, line 3: ", message)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        ("coref", {}, "elmo_ner, elmo_sst, .* and no CorefModel; for its biLM"),
        ("srl", {}, "and no SrlModel"),
        ("mrpc", {}, "token indexer ElmoWordIndexer"),
        ("sst", {"elmo.stateful": True}, "stateful: true"),
    ],
)
def test_what_cannot_be_exported(tmp_path, monkeypatch, config, changes, message):
    monkeypatch.setattr(export, "_NEEDED", ())
    archive = open_archive(write_archive(tmp_path / "run", config, **changes))
    with pytest.raises(ElmoError, match=message):
        write_model(archive, tmp_path)
    monkeypatch.setattr(export, "_NEEDED", ("no_such_package",))
    with pytest.raises(ElmoError, match="no_such_package"):
        write_model(archive, tmp_path)
