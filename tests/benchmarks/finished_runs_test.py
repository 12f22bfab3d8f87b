import pytest

from benchmarks.finished_runs import epoch_times, write_curve
from elmo_tasks.evaluation.table import Table
from elmo_tasks.training.experiments import Run


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
