"""The smallest run of each task, on the fixtures, in this process; the scores mean nothing."""

import copy
import gzip
import json
import os
import re
import shlex
import subprocess
from argparse import ArgumentParser
from collections import Counter

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params

from benchmarks.__main__ import TASKS, load_task, main
from benchmarks.english import WEIGHTS
from benchmarks.results import COLUMNS
from benchmarks.zoo import PARTS
from elmo_tasks.commands import experiments
from elmo_tasks.common.files import bundled
from elmo_tasks.common.table import Table
from tests.forked import run_python

pytestmark = pytest.mark.slow

WORDS = "model.text_field_embedder.token_embedders.tokens.embedding_dim"
SMALL = {
    "ner": {"model.hidden_sizes": [4, 4], WORDS: 5},
    "srl": {"model.hidden_size": 4, "model.num_layers": 2, "model.predicate_dim": 3, WORDS: 5},
    "coref": {
        "model.hidden_sizes": [4],
        "model.feedforward_sizes": [4, 4],
        "model.max_span_width": 3,
        WORDS: 5,
    },
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


@pytest.fixture
def in_process(monkeypatch):
    """Trains runs in this process; yields their names, in order."""
    names = []

    def train(runs, *, jobs, packages, report):
        for run in runs:
            if run.metrics() is None:
                train_model(Params(copy.deepcopy(run.config)), run.folder)
                for checkpoint in run.folder.glob("*.th"):
                    checkpoint.unlink()
                names.append(run.variant)
                report(run)

    monkeypatch.setattr(experiments, "train", train)
    return names


@pytest.fixture
def _forked(monkeypatch):
    """Programs of Python come from a process that has imported all of AllenNLP."""
    monkeypatch.setattr(subprocess, "run", run_python)


def test_help_lists_all_tasks(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    output = capsys.readouterr().out
    assert [task for task in TASKS if not re.search(rf"^    {task}\s", output, re.MULTILINE)] == []


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


def test_the_text_of_the_task_is_read_first(tmp_path, in_process):
    arguments = ["srl", bundled("fixtures/srl"), tmp_path, "--epochs", 1, "--limit", 8, 4, "--seeds", 1]
    arguments += ["--systems", "elmo-finetuned", "--overrides", json.dumps(SMALL["srl"])]
    run(*arguments)
    assert in_process == ["finetuned", "elmo-finetuned"]
    config = json.loads((tmp_path / "elmo-finetuned/seed-1/config.json").read_text())
    assert config["model"]["elmo"]["weight_file"] == str(tmp_path / "finetuned/elmo/weights.hdf5")


def test_an_ensemble_of_two_seeds(tmp_path, in_process):
    overrides = {**SMALL["ner"], "data_loader.batch_sampler.batch_size": 8, "trainer.optimizer.lr": 0.02}
    arguments = ["--systems", "ours", "--seeds", 1, 2, "--epochs", 2, "--overrides", json.dumps(overrides)]
    run("ner", bundled("fixtures/ner"), tmp_path, *arguments)
    with pytest.raises(SystemExit, match="has 0 runs"):
        run("ensemble", tmp_path, tmp_path / "ensemble")
    run("ensemble", tmp_path / "ours", tmp_path / "ensemble")
    table = Table.read(tmp_path / "ensemble/results.csv")
    assert table.column("system") == ["member", "member", "ensemble"]
    best = [row[4] for row in Table.read(tmp_path / "results.csv").where("metric", "F1").rows]
    assert table.column("value")[:2] == best


@pytest.mark.usefixtures("_forked")
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


@pytest.mark.usefixtures("_forked")
def test_embed_from_start_to_end(tmp_path):
    arguments = ["-n", 3, "--size", "tiny", "--rounds", 1, "--csv", tmp_path / "rows.csv"]
    run("embed-speed", bundled("fixtures/elmo/sentences.txt"), tmp_path, *arguments)
    (difference,) = (
        Table.read(tmp_path / "rows.csv").where("metric", "largest difference of layers").column("value")
    )
    assert float(difference) < 2e-6


def test_where_the_time_of_an_archive_goes(tmp_path):
    (tmp_path / "sst5").symlink_to(bundled("fixtures/sst"))
    text = bundled("fixtures/elmo/sentences.txt")
    run("zoo-speed", text, tmp_path, "--names", "sst", "--csv", tmp_path / "rows.csv")
    table = Table.read(tmp_path / "rows.csv")
    rows = dict(zip(table.column("metric"), table.column("value"), strict=True))
    for command, tokens in (("predict", text.read_text().split()), ("evaluate", None)):
        shares = [rows[f"{command}: {part}"] for part in PARTS]
        assert sum(shares) == pytest.approx(1)
        assert all(share > 0 for share in shares)
        if tokens:
            assert rows[f"{command}: seconds"] * rows[f"{command}: tokens/s"] >= len(tokens)


@pytest.mark.parametrize("option", [(), ("--dry",)])
def test_what_runs_on_a_gpu(tmp_path, option):
    """The programs accept its commands."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >>{tmp_path}/calls\nprintf "\\n" >>{tmp_path}/calls\n')
    python.chmod(0o755)
    script = ["bash", str(bundled("benchmarks/gpu.sh")), str(tmp_path / "out"), *option]
    subprocess.run(script, env=os.environ | {"PYTHON": str(python)}, check=True, capture_output=True)
    calls = [line.rstrip("\0").split("\0") for line in (tmp_path / "calls").read_text().split("\0\n")[:-1]]
    tasks = [words[2:] for words in calls if words[:2] == ["-m", "benchmarks"]]
    assert [task for task, *_ in tasks] == ["elmo-speed", *(["ner"] if option else SMALL)], shlex.join(script)
    for task, *arguments in tasks:
        parser = ArgumentParser()
        load_task(task).add_arguments(parser)
        parser.parse_args(arguments)


def test_the_english_text_in_one_file(tmp_path):
    """Each corpus as often as a round reads it, in documents of up to 64 sentences."""
    for name in WEIGHTS:
        document = "".join(f"{name} {number}\n" for number in range(65))
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress(document.encode()))
    run("english-mix", tmp_path, tmp_path / "mixed.txt.gz")
    lines = gzip.decompress((tmp_path / "mixed.txt.gz").read_bytes()).decode().splitlines()
    assert Counter(line.partition(" ")[0] for line in lines if line) == {
        name: 65 * weight for name, weight in WEIGHTS.items()
    }
    assert lines.count("") == 2 * sum(WEIGHTS.values()) - 1
    assert sorted(lines) != lines


def test_coreference_without_clusters_of_one_mention(tmp_path):
    rows = [("a", "(0)"), ("dog", "(1)"), ("saw", "-"), ("it", "(0)")]
    lines = [f"doc 0 {i} {word} - - - - - - - {mark}" for i, (word, mark) in enumerate(rows)]
    (tmp_path / "dev.conll").write_text(
        "\n".join(["#begin document (doc); part 000", *lines, "", "#end document", ""])
    )
    run("coref-limit", tmp_path / "dev.conll", "--csv", tmp_path / "rows.csv")
    f1, *clusters = Table.read(tmp_path / "rows.csv").column("value")
    assert clusters == [2, 1]
    # MUC has no links of the one mention; B-cubed misses one mention of three, CEAF-e one cluster of two.
    assert f1 == pytest.approx(100 * (1 + 2 * (2 / 3) / (5 / 3) + 2 * (1 / 2) / (3 / 2)) / 3)


def test_ag_news(tmp_path, in_process):
    pytest.importorskip("gensim")
    fixtures = bundled("fixtures/classification/agnews")
    files = ["--train", fixtures / "train.csv", "--dev", fixtures / "dev.csv"]
    small = json.dumps({"model.options.lstm.dim": 8, "model.options.lstm.projection_dim": 8})
    arguments = ["ag-news", "nowhere", tmp_path, *files, "--seeds", 1, "--epochs", 1]
    arguments += ["--pretrain-epochs", 1, "--pretrain-overrides", small]
    arguments += ["--overrides", json.dumps({"model.hidden_sizes": [4]})]
    run(*arguments, "--variants", "mix: frozen")
    run(*arguments, "--variants", "mix: frozen", "biLM: random words")
    first, random = "as configured", "biLM: random words"
    assert in_process == [first, first, "mix: frozen", random, random]
    expected = {"biLM perplexity", "biLM accuracy_forward", "biLM macro_precision", "accuracy", "macro_f1"}
    assert set(metrics(tmp_path / "results.csv", random)) >= expected
    assert len(Table.read(tmp_path / "confusion-bilm.csv").rows) == 21
    topics = Table.read(tmp_path / "confusion-classifier.csv")
    assert sum(sum(row[1:5]) for row in topics.rows) == 24
    configs = [
        json.loads((tmp_path / f"bilm/{name}/seed-13/config.json").read_text()) for name in (first, random)
    ]
    vectors, none = (config["model"]["input_vectors"] for config in configs)
    assert vectors.startswith(str(tmp_path / "vectors-8/word2vec-"))
    assert none is None
