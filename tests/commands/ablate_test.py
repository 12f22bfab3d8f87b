"""`allennlp elmo ablate`; what trains the runs is tested in tests/training/experiments_test.py."""

import pytest
from allennlp.common import Params

from elmo_tasks.commands.ablate import sample_table
from elmo_tasks.common.files import bundled
from elmo_tasks.common.table import Table
from elmo_tasks.training.experiments import NO_ELMO, Setting, plan
from tests.training.runs import finish

CONFIG = bundled("training_configs/sst_elmo.jsonnet").resolve()
SETTINGS = [
    *("none", "input+output-top", "input+output-all-lambda-1", "input+output-all-lambda-0.001"),
    *("input-all-lambda-0.001", "output-all-lambda-0.001"),
    *("input+output-all-lambda-0.001-fraction-0.1", "none-fraction-0.1"),
]


def score_of(runs, variant, seed):
    (run,) = (run for run in runs if (run.variant, run.seed) == (variant, seed))
    return max(run.scores("accuracy"))


def test_all_tables(elmo, trained, tmp_path, capsys):
    out = tmp_path / "out"
    assert elmo("ablate", CONFIG, out, "--seeds", 1, 2, "--fractions", 1, 0.1) == 0
    shown = capsys.readouterr().out
    # What two tables share is trained once.
    assert [(run.variant, run.seed) for run in trained] == [
        (name, seed) for seed in (1, 2) for name in SETTINGS
    ]
    assert "16 runs, 0 of them done\n\n| variant | accuracy |" in shown
    assert "\n1 of 16: none, seed 1: accuracy 0." in shown
    layers, placement, samples = (
        Table.read(out / f"{name}.csv") for name in ("layers", "placement", "samples")
    )
    assert layers.columns == ("variant", "accuracy", "standard deviation", "runs", "seed 1", "seed 2")
    rows = ["no ELMo", "top layer", "all layers, lambda 1", "all layers, lambda 0.001"]
    assert layers.column("variant") == rows
    assert layers.column("seed 2") == [score_of(trained, name, 2) for name in SETTINGS[:4]]
    assert placement.column("variant") == ["no ELMo", "input", "input+output", "output"]
    assert placement.rows[2][1:] == layers.rows[3][1:]
    assert [row[:3] for row in samples.rows] == [
        (0.1, 49, "without"),
        (0.1, 49, "with"),
        (1.0, 487, "without"),
        (1.0, 487, "with"),
    ]
    assert samples.column("accuracy")[2:] == [row[1] for row in (layers.rows[0], layers.rows[3])]
    for name in ("layers", "placement", "samples"):
        assert (out / f"{name}.md").read_text() in shown
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_samples_are_the_same_with_elmo_and_without(elmo, trained, tmp_path):
    arguments = ("--tables", "samples", "--fractions", 0.1)
    assert elmo("ablate", CONFIG, tmp_path / "out", *arguments, "--seeds", 1, 2) == 0
    config = Params.from_file(str(CONFIG)).as_dict(quiet=True)
    for run in trained:
        sample = {
            "type": "elmo_sample",
            "reader": config["dataset_reader"],
            "fraction": 0.1,
            "seed": run.seed,
        }
        assert run.config["dataset_reader"] == sample
        assert run.config["validation_dataset_reader"] == config["validation_dataset_reader"]
    assert [run.variant for run in trained] == SETTINGS[-2:] * 2


def test_runs_that_are_done_are_not_trained_again(elmo, trained, tmp_path, capsys):
    first = ("ablate", CONFIG, tmp_path / "out", "--seeds", 1)
    assert elmo(*first, "--tables", "placement") == 0
    assert len(trained) == 4
    assert elmo(*first, "--tables", "layers") == 0
    assert [run.variant for run in trained[4:]] == SETTINGS[1:3]
    assert "4 runs, 2 of them done\n" in capsys.readouterr().out
    assert elmo("ablate", CONFIG, tmp_path / "out", "--seeds", 1, 2, "--tables", "layers") == 0
    assert [str(run) for run in trained[6:]] == [f"{name}, seed 2" for name in SETTINGS[:4]]


@pytest.mark.parametrize("metric", ["+accuracy", "-accuracy"])
def test_epochs_to_the_best_score(tmp_path, metric):
    """Of two seeds with ELMo, both come up to the baseline with all data, one with a tenth of it."""
    own = Setting("input", "all", None)
    scores = {
        (1.0, "none"): ([0.2, 0.4, 0.3], [0.5, 0.5]),
        (1.0, "input"): ([0.45, 0.1, 0.6], [0.1, 0.4, 0.5]),
        (0.1, "none"): ([0.1, 0.2], [0.1, 0.4]),
        (0.1, "input"): ([0.3], [0.3]),
    }
    settings = [kind._replace(fraction=part) for part in (1.0, 0.1) for kind in (NO_ELMO, own)]
    config = {"trainer": {"validation_metric": metric}}
    runs = plan(config, {str(setting): {} for setting in settings}, seeds=[1, 2], folder=tmp_path)
    sign = float(f"{metric[0]}1")
    for run, setting in zip(runs, settings * 2, strict=True):
        of_seed = scores[setting.fraction, setting.placement][run.seed - 1]
        finish(run, [sign * value for value in of_seed])
    table = sample_table(runs, own, {0.1: 10, 1.0: 100})
    assert table.column("accuracy") == pytest.approx([sign * mean for mean in (0.3, 0.3, 0.45, 0.55)])
    assert table.column("epochs to best") == [2, 1, 1.5, 3]
    assert table.column("epochs to best without ELMo") == [None, None, None, 2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--fractions", "0.0001"), 1, "fraction 0.0001 of 487 instances is none, expected 1 or more"),
        (("--fractions", "2"), 2, "found '2', expected a number above 0, up to 1"),
        (("--tables", "mixes"), 2, "invalid choice: 'mixes'"),
        (("-o", '{"model.elmo.placement": "none"}'), 1, "found 'none', expected where ELMo is to be"),
    ],
)
def test_errors(elmo, tmp_path, capsys, arguments, code, message):
    assert elmo("ablate", CONFIG, tmp_path / "out", *arguments) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
