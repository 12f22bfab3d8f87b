import json
import time
from argparse import ArgumentParser, Namespace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import (
    add_run_arguments,
    figure,
    read_elmo_config,
    train_and_report,
)
from elmo_tasks.common.files import bundled
from elmo_tasks.training.experiments import plan, summary
from tests.training.runs import finish

CONFIGS = bundled("training_configs").resolve()


def parsed(*arguments: Any) -> Namespace:
    parser = ArgumentParser()
    add_run_arguments(parser)
    return parser.parse_args(list(map(str, arguments)))


def runs_of(folder: Path, *, seeds: list[int]):
    config = {"trainer": {"validation_metric": "+accuracy"}}
    return plan(config, {"with": {}, "without": {}}, seeds=seeds, folder=folder)


def test_arguments():
    assert vars(parsed("a.jsonnet", "out")) == {
        "config": "a.jsonnet",
        "output": Path("out"),
        "overrides": "",
        "seeds": [13, 14, 15],
        "jobs": 1,
    }
    changed = parsed("a.jsonnet", "out", "--seeds", 1, 2, "--jobs", 3)
    assert (changed.seeds, changed.jobs) == ([1, 2], 3)
    assert parsed("a.jsonnet", "out", "--seeds", 2, 1, 2).seeds == [2, 1]


def test_config_with_its_overrides():
    changes = json.dumps({"model.elmo.placement": "output"})
    config = read_elmo_config(parsed(CONFIGS / "sst2_elmo.jsonnet", "out", "-o", changes))
    assert config["model"]["elmo"]["placement"] == "output"
    assert config["trainer"]["validation_metric"].endswith("accuracy")


@pytest.mark.parametrize("model", ["", '"model": 3', '"model": "elmo"', '"model": {"elmo": null}'])
def test_config_without_a_model(tmp_path, model):
    (tmp_path / "a.jsonnet").write_text(f"{{{model}}}")
    arguments = Namespace(config=str(tmp_path / "a.jsonnet"), overrides="")
    with pytest.raises(ConfigurationError, match=r"found no model\.elmo, expected a config with ELMo"):
        read_elmo_config(arguments)


@pytest.mark.parametrize("metric", ["null", '["+f1", "-loss"]', '"f1"'])
def test_config_without_one_metric(tmp_path, metric):
    trainer = f'"trainer": {{"validation_metric": {metric}}}'
    (tmp_path / "a.jsonnet").write_text(f'{{"model": {{"elmo": {{}}}}, {trainer}}}')
    arguments = Namespace(config=str(tmp_path / "a.jsonnet"), overrides="")
    with pytest.raises(
        ConfigurationError, match=r"found the trainer\.validation_metric .*, expected one metric"
    ):
        read_elmo_config(arguments)


def test_config_that_does_not_use_its_elmo():
    path = CONFIGS / "sst2_elmo.jsonnet"
    with pytest.raises(ConfigurationError) as caught:
        read_elmo_config(parsed(path, "out", "-o", '{"model.elmo.placement": "none"}'))
    expected = "model.elmo.placement: found 'none', expected where ELMo is to be"
    assert str(caught.value) == f"{path}: {expected}"


def test_config_without_elmo():
    path = CONFIGS / "sst2.jsonnet"
    with pytest.raises(ConfigurationError) as caught:
        read_elmo_config(parsed(path, "out"))
    assert str(caught.value) == f"{path}: found no model.elmo, expected a config with ELMo"


def test_the_table_and_the_time_left_are_told_after_each_run(trained, tmp_path, capsys, monkeypatch):
    """The table at first and after each run, and the time that is left, at 100 s a run."""
    runs = runs_of(tmp_path, seeds=[1, 2])
    finish(runs[0], [0.25, 0.5])
    before = summary(runs).markdown()
    clock = count(0, 100)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    train_and_report(runs, jobs=1, packages=[])
    assert trained == runs[1:]
    shown = capsys.readouterr().out
    assert shown.startswith(f"4 runs, 1 of them done\n\n{before}")
    assert shown.endswith(summary(runs).markdown() + "\n")
    told = [line for line in shown.splitlines() if " left" in line]
    for number, (run, line, left) in enumerate(
        zip(runs[1:], told, ("0:03:20", "0:01:40", "0:00:00"), strict=True), start=2
    ):
        score = max(run.scores("accuracy"))
        assert line == f"{number} of 4: {run}: accuracy {score:.4f}, about {left} left"


def test_a_bar_a_seed_and_a_group_a_variant(tmp_path):
    runs = runs_of(tmp_path, seeds=[1, 2, 3])
    for run, score in zip(runs, (0.1, 0.2, 0.3, 0.4, 0.5), strict=False):
        finish(run, [score])
    (axes,) = figure(runs).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["with", "without"]
    bars = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    assert list(bars) == ["seed 1", "seed 2", "seed 3"]
    assert (bars["seed 1"], bars["seed 2"]) == ([0.1, 0.2], [0.3, 0.4])
    # The last run is not done.
    assert bars["seed 3"][0] == 0.5
    assert bars["seed 3"][1] != bars["seed 3"][1]
