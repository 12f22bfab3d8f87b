import pytest
from allennlp.common.checks import ConfigurationError

from benchmarks.finished_runs import epoch_times, finished_run, write_curve
from elmo_tasks.evaluation.table import Table
from elmo_tasks.training.experiments import Run


def test_a_run_by_its_folder(tmp_path):
    folder = tmp_path / "elmo/seed-14"
    folder.mkdir(parents=True)
    for name, content in {"config.json": '{"random_seed": 14}', "best.th": "", "metrics.json": "{}"}.items():
        with pytest.raises(ConfigurationError, match="seed-14: found no run that is done"):
            finished_run(folder)
        (folder / name).write_text(content)
    with pytest.raises(ConfigurationError, match="seed-14: found no run that is done"):
        finished_run(folder)
    (folder / "best.th").unlink()
    assert finished_run(folder) == Run("elmo", 14, {"random_seed": 14}, folder)


def test_the_times_of_epochs_leave_out_the_one_after_a_kill(tmp_path):
    durations = ("0:00:02", "0:00:03.500000", "0:00:01", "1 day, 0:00:02")
    for epoch, duration in enumerate(durations):
        (tmp_path / f"metrics_epoch_{epoch}.json").write_text(f'{{"training_duration": "{duration}"}}')
    assert epoch_times(Run("any", 1, {}, tmp_path)) == pytest.approx([2, 1.5, 24 * 3600 + 1])


def test_the_curve_keeps_the_runs_that_it_has(tmp_path):
    path, config = tmp_path / "curve.csv", {"trainer": {"validation_metric": "+accuracy"}}
    runs = []
    for system in ("ours", "elmo"):
        runs.append(Run(system, 13, config, tmp_path / system))
        runs[-1].folder.mkdir()
        for epoch, accuracy in enumerate((0.25, 0.5)):
            (runs[-1].folder / f"metrics_epoch_{epoch}.json").write_text(
                f'{{"validation_accuracy": {accuracy}}}'
            )
        write_curve([runs[-1]], path)
    write_curve(runs, path)
    assert Table.read(path).rows == [
        ("ours", 13, 1, 25.0),
        ("ours", 13, 2, 50.0),
        ("elmo", 13, 1, 25.0),
        ("elmo", 13, 2, 50.0),
    ]
