"""The smallest run of each task, on the fixtures, in this process; the scores mean nothing."""

import gzip
import json

import pytest

from benchmarks.__main__ import main
from benchmarks.results import COLUMNS
from elmo_tasks.common.files import bundled
from elmo_tasks.common.table import Table
from tests.elmo.files import needs_h5py

pytestmark = pytest.mark.slow

WORDS = "model.text_field_embedder.token_embedders.tokens.embedding_dim"
SMALL = {
    "ner": {"model.hidden_sizes": [4, 4], WORDS: 5},
    "srl": {"model.hidden_size": 4, "model.num_layers": 2, "model.predicate_dim": 3, WORDS: 5},
    "coref": {"model.hidden_sizes": [4], "model.feedforward_sizes": [4], "model.max_span_width": 3, WORDS: 5},
    "squad": {"model.hidden_size": 4, "model.linear_size": 4, WORDS: 5},
    "snli": {"model.hidden_size": 4, WORDS: 5},
    "sst": {"model.hidden_size": 4, "model.projection_size": 5, "model.classifier_sizes": [4, 4], WORDS: 5},
}


def run(task, *arguments):
    main([task, *map(str, arguments)])


def metrics(path, system):
    table = Table.read(path)
    assert table.columns == COLUMNS
    return table.where("system", system).column("metric")


@needs_h5py
@pytest.mark.parametrize("task", SMALL)
def test_epochs_in_turn(task, tmp_path, capsys):
    data = bundled(f"fixtures/{task}")
    with_elmo = "elmo-output-computed" if task == "ner" else "elmo"
    turns = f"ours, {with_elmo}, peer-elmo" if task == "ner" else "ours, peer-elmo"
    arguments = [task, data, tmp_path, "--seeds", "--overrides", json.dumps(SMALL[task]), "--rounds", 1]
    number = 1 if task == "coref" else 3  # of documents, or sentences
    arguments += ["--size", "tiny", "--timed", number, number, "--timed-epochs", 2]
    arguments += ["--time", *turns.split(", ")]
    run(*arguments)
    for system in ("ours", "peer-elmo"):
        assert metrics(tmp_path / "results.csv", system) == [
            *[f"{turns} in turn, tiny: ELMo in an epoch, s"] * (system != "ours"),
            f"{turns} in turn, tiny: time of the first epoch, s",
            f"{turns} in turn, tiny: time of an epoch, s",
        ]
    before = (tmp_path / "results.csv").read_bytes()
    run(*arguments)
    assert (tmp_path / "results.csv").read_bytes() == before
    assert f"| {turns} in turn, tiny: time of an epoch, s | peer-elmo |" in capsys.readouterr().out


def test_scores_of_a_task_with_its_own_metric_go_on_after_a_kill(tmp_path, capsys):
    arguments = ["coref", bundled("fixtures/coref"), tmp_path, "--seeds", 1, "--epochs", 1]
    arguments += ["--systems", "ours", "peer", "--limit", 4, 2, "--overrides", json.dumps(SMALL["coref"])]
    run(*arguments)
    assert "2 runs, 0 of them done" in capsys.readouterr().out
    table = Table.read(tmp_path / "results.csv").where("metric", "average F1")
    assert table.column("system") == ["ours", "peer"]
    assert Table.read(tmp_path / "curve.csv").column("system") == ["ours", "peer"]
    run(*arguments)
    output = capsys.readouterr().out
    assert "2 runs, 2 of them done" in output
    assert "| average F1 | ours |" in output
    with pytest.raises(SystemExit, match=r"trainer\.num_epochs"):
        run(*arguments, "--epochs", 2)


@needs_h5py
def test_the_encoder(tmp_path, capsys):
    text = tmp_path / "text.gz"
    text.write_bytes(gzip.compress(bundled("fixtures/elmo/sentences.txt").read_bytes()))
    arguments = ["--rounds", 1, "--sizes", "tiny", "--threads", 1, "--csv", tmp_path / "rows.csv"]
    run("elmo-speed", text, "-n", 3, "--singles", 2, *arguments)
    assert "at most 2e-05: reached" in capsys.readouterr().out
    for system in ("ours", "peer"):
        names = metrics(tmp_path / "rows.csv", system)
        assert names.count("tiny: batches of 64, cold, tokens/s") == 1
        assert names.count("tiny: peak memory, GB") == 1


@needs_h5py
def test_embed_from_start_to_end(tmp_path):
    arguments = ["-n", 3, "--size", "tiny", "--rounds", 1, "--csv", tmp_path / "rows.csv"]
    run("embed-speed", bundled("fixtures/elmo/sentences.txt"), tmp_path, *arguments)
    (difference,) = (
        Table.read(tmp_path / "rows.csv").where("metric", "largest difference of layers").column("value")
    )
    assert float(difference) < 2e-6
