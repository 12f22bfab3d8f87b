"""The examples run: the notebooks, the task of CONTRIBUTING.md, the table of `make ner`."""

import json
import re
import shlex
import shutil
import textwrap
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from elmo_tasks import load
from elmo_tasks.common.files import bundled
from elmo_tasks.data.reader import join_words
from elmo_tasks.page.tabs import Tab
from elmo_tasks.pipeline.trained import TrainedModel
from examples import notebook, own_task, show_ner
from tests.forked import Command

PROJECT = bundled("fixtures").resolve().parent


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(PROJECT.glob("examples/*.ipynb")), ids=lambda path: path.stem)
def test_notebooks(path, tmp_path, monkeypatch):
    """They run, print what is stored, and draw as many figures."""
    text = path.read_text(encoding="utf-8")
    for package, written in (("gensim", "keyed_vectors"), ("h5py", ".hdf5")):
        if written in text:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    cells = notebook.code_cells(json.loads(text))
    for cell, outputs in zip(cells, notebook.run(cells), strict=True):
        assert [output["output_type"] for output in outputs] == [
            output["output_type"] for output in cell["outputs"]
        ]
        if "varies" not in cell["metadata"].get("tags", ()):
            texts = [[output.get("text") for output in of] for of in (outputs, cell["outputs"])]
            assert texts[0] == texts[1]


@pytest.mark.slow
def test_the_task_of_ones_own(tmp_path, monkeypatch):
    """The commands of CONTRIBUTING.md, with the run in a folder of the test."""
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    commands = [shlex.split(line) for line in re.findall(r"(?m)^allennlp .*own_task.*$", text)]
    assert [words[1] for words in commands] == ["train", "predict"]
    monkeypatch.chdir(PROJECT)
    output = tmp_path / "predictions.jsonl"
    for words in commands:
        words = [word.replace("runs/own_task", str(tmp_path / "run")) for word in words]
        if words[1] == "predict":
            words += ["--output-file", output]
        Command(words[1:], tmp_path / "log").succeed()
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["best_validation_accuracy"] == pytest.approx(1)
    tags = [json.loads(line)["tags"] for line in output.read_text().splitlines()]
    assert tags[0] == ["DET", "ADJ", "NOUN", "VERB", "DET", "ADJ", "NOUN", "PUNCT"]
    assert DatasetReader.by_name("own_pos") is own_task.PosReader  # `load` opens what is registered
    model = load(tmp_path / "run")
    first = json.loads((PROJECT / "examples/own_task/predict.jsonl").read_text().splitlines()[0])
    assert model(**first)["tags"] == tags[0]
    # A predictor with a further field
    (code,) = re.findall(r"(?ms)^   ```python\n(.*?)^   ```", text)
    names = {"PosPredictor": own_task.PosPredictor, "join_words": join_words}
    exec(textwrap.dedent(code), names)
    predictor = names["FirstWordsPredictor"](model.predictor._model, model.predictor._dataset_reader)
    tab = Tab.of("first_words", predictor)
    content = tab.content(first | {"count": " 3 "})
    assert content == first | {"count": 3}
    assert TrainedModel(predictor)(first["sentence"], 3)["tags"] == tags[0][:3]
    with pytest.raises(
        ConfigurationError, match=r'needs "count", such as {"sentence": "\.\.\.", "count": 1}'
    ):
        predictor.predict_json(first)
    with pytest.raises(ConfigurationError, match=r"“Count” is “three”\. A whole number"):
        tab.content(first | {"count": "three"})


@pytest.mark.slow
def test_a_copy_of_it(tmp_path, monkeypatch):
    """A copy with names and paths of its own trains in the same program, and is scored on an unseen tag."""
    copy = tmp_path / "my_task"
    shutil.copytree(PROJECT / "examples/own_task", copy, ignore=shutil.ignore_patterns("__pycache__"))
    names = {"own_pos": "my_pos", "../../training_configs": str(PROJECT / "training_configs")}
    for path in [*copy.glob("*.py"), copy / "config.jsonnet"]:
        text = path.read_text(encoding="utf-8")
        for name, new in (
            names | {"examples/own_task": "my_task", "num_epochs: 15": "num_epochs: 1"}
        ).items():
            text = text.replace(name, new)
        path.write_text(text, encoding="utf-8")
    (copy / "dev.txt").write_text("Oh/INTJ\n")
    monkeypatch.chdir(tmp_path)
    include = ["--include-package", "examples.own_task", "--include-package", "my_task"]
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    Command(["train", "my_task/config.jsonnet", "-s", "run", *include], tmp_path / "log").succeed()
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert (metrics["validation_accuracy"], metrics["validation_loss"]) == (0, 0)


def test_scores_and_three_predictions_of_ner(tmp_path, capsys):
    metrics = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "accuracy": 0.987, "loss": 1.0}
    metrics |= {f"{name}-PER": 0.5 for name in ("precision", "recall", "f1")}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    entity = {"type": "PER", "text": "Zoë", "probability": 0.876}
    predictions = [{"tokens": [str(i), "Zoë"], "entities": [entity][:i]} for i in range(5)]
    (tmp_path / "out.jsonl").write_text("\n".join(map(json.dumps, predictions)))
    show_ner.show(tmp_path / "metrics.json", tmp_path / "out.jsonl")
    printed = capsys.readouterr().out
    assert "all      50.00      25.00      33.33\ntoken accuracy 98.70\n" in printed
    assert printed.endswith(
        "\n  0 Zoë\n    no entity\n\n  1 Zoë\n    PER    Zoë  (0.88)\n\n  2 Zoë\n    PER    Zoë  (0.88)\n"
    )
