import fcntl
import json
import multiprocessing
import signal
import statistics
import time

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from filelock import lock_descriptor

from elmo_tasks.common.files import bundled
from elmo_tasks.training.experiments import plan, summary, train, variants_at_chance
from tests.training.runs import finish

VARIANTS = {"small": {}, "large": {"model.hidden_sizes": [8]}}
SMALL = {
    "model.hidden_sizes": [4],
    "model.text_field_embedder.token_embedders.tokens.embedding_dim": 5,
    "trainer.num_epochs": 3,
    "trainer.optimizer.lr": 0.02,
}
PACKAGES = ["elmo_tasks.classification", "tests.training.runs"]


def config(**overrides):
    path = str(bundled("training_configs/sst2.jsonnet").resolve())
    return Params.from_file(path, json.dumps(SMALL | overrides)).as_dict(quiet=True)


def train_all(runs, jobs=1):
    reported = []
    train(runs, jobs=jobs, packages=PACKAGES, report=lambda run: reported.append(str(run)))
    return reported


def only_run(folder, **overrides):
    (run,) = plan(config(**overrides), {"only": {}}, seeds=[1], folder=folder)
    return run


def test_plan(tmp_path):
    """`tests/commands/experiments_test.py` has the order of runs."""
    *_, run = plan(config(), VARIANTS, seeds=[1, 2], folder=tmp_path)
    assert {run.config[f"{kind}_seed"] for kind in ("random", "numpy", "pytorch")} == {2}
    with pytest.raises(ConfigurationError, match="odd:"):
        plan(config(), {"odd": {"model.elmo.gamma": False}}, seeds=[1], folder=tmp_path)


def test_summary(tmp_path):
    runs = plan(config(), VARIANTS, seeds=[1, 2], folder=tmp_path)
    for run, value in zip(runs, (0.5, 0.25, 0.75), strict=False):
        finish(run, [value])
    table = summary(runs)
    assert table.columns == ("variant", "accuracy", "standard deviation", "runs", "seed 1", "seed 2")
    assert table.rows == [
        ("small", 0.625, statistics.stdev([0.5, 0.75]), 2, 0.5, 0.75),
        ("large", 0.25, None, 1, 0.25, None),
    ]
    assert variants_at_chance(runs[1:3]) == ["large"]


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_result_and_a_done_one_stays(tmp_path):
    callbacks = [*config()["trainer"]["callbacks"], {"type": "kill_once"}]
    killed = plan(config(**{"trainer.callbacks": callbacks}), {"small": {}}, seeds=[1], folder=tmp_path)
    with pytest.raises(ConfigurationError, match="small, seed 1: was ended by SIGKILL, "):
        train_all(killed)
    assert killed[0].metrics() is None
    whole = plan(config(), {"small": {}}, seeds=[1], folder=tmp_path / "whole")
    assert set(train_all([*killed, *whole], jobs=2)) == {"small, seed 1"}
    for name in ("best_validation_accuracy", "best_validation_loss", "training_loss"):
        assert killed[0].metrics()[name] == whole[0].metrics()[name]
    assert (whole[0].folder / "model.tar.gz").exists()
    assert len(whole[0].scores("accuracy")) == 3
    assert max(whole[0].scores("accuracy")) == whole[0].metrics()["best_validation_accuracy"]
    assert not list(tmp_path.rglob("*.th"))
    assert train_all([*killed, *whole]) == []


def test_checkpoints_that_a_kill_left_behind(tmp_path):
    """With the best weights the archive may be incomplete; other checkpoints of a done run are removed."""
    run = only_run(tmp_path)
    finish(run, [0.5])
    (run.folder / "best.th").touch()
    assert run.metrics() is None
    (run.folder / "best.th").rename(run.folder / "model_state_e1_b0.th")
    assert train_all([run]) == []
    assert not list(tmp_path.rglob("*.th"))


def test_a_run_that_fails(tmp_path):
    run = only_run(tmp_path, train_data_path="nowhere.tsv")
    with pytest.raises(ConfigurationError, match=r"only, seed 1: .*nowhere\.tsv:"):
        train_all([run])


def test_two_processes_never_train_one_run(tmp_path):
    run = only_run(tmp_path)
    run.log.parent.mkdir()
    with open(run.log, "a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="in use by another"):
            train_all([run])


@pytest.mark.slow
def test_a_run_ends_with_the_process_that_started_it(tmp_path):
    """Also after SIGKILL, which leaves that process no time to end the run."""
    run = only_run(tmp_path, **{"trainer.callbacks": [{"type": "kill_parent"}]})
    starter = multiprocessing.get_context("spawn").Process(target=train_all, args=([run],))
    starter.start()
    starter.join()
    assert starter.exitcode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    with open(run.log, "a") as log:
        while not lock_descriptor(log.fileno(), blocking=False):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_run_of_another_config_is_an_error(tmp_path):
    finish(only_run(tmp_path), [0.5])
    with pytest.raises(ConfigurationError, match=r"seed-1 .*trainer\.num_epochs"):
        train_all([only_run(tmp_path, **{"trainer.num_epochs": 4})])
