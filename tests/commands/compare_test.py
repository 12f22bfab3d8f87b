"""`allennlp elmo compare`; what trains the runs is tested in tests/training/experiments_test.py."""

import csv
import gzip
import json

import pytest

import elmo_tasks.classification  # noqa: F401
from elmo_tasks.commands.compare import VARIANTS
from elmo_tasks.common.files import bundled

CONFIG = bundled("training_configs/sst2_elmo.jsonnet").resolve()
SMALL = json.dumps({"model.text_field_embedder.token_embedders.tokens.embedding_dim": 6})


def test_all_variants(elmo, trained, tmp_path, capsys):
    pytest.importorskip("gensim")
    assert elmo("compare", CONFIG, tmp_path / "out", "--seeds", 1, 2, "--overrides", SMALL) == 0
    shown = capsys.readouterr().out
    assert [(run.variant, run.seed) for run in trained] == [
        (name, seed) for seed in (1, 2) for name in VARIANTS
    ]
    blocks = {run.variant: run.config["model"]["elmo"] for run in trained}
    assert [(blocks[name].get("weights"), blocks[name].get("gamma")) for name in VARIANTS[:6]] == [
        (weights, gamma) for weights in ("trainable", "frozen", "function") for gamma in (True, False)
    ]
    assert {name for name in VARIANTS if blocks[name]["placement"] == "none"} == {
        "no-elmo",
        "word2vec",
        "svd",
    }
    embeddings = {
        run.variant: run.config["model"]["text_field_embedder"]["token_embedders"]["tokens"]
        for run in trained
    }
    assert "pretrained_file" not in embeddings["no-elmo"]
    for method in ("word2vec", "svd"):
        assert embeddings[method]["embedding_dim"] == 6
        with gzip.open(embeddings[method]["pretrained_file"], "rt") as file:
            header, *lines = file.read().splitlines()
        assert header == f"{len(lines)} 6"
        # As the indexer looks words up: in lower case
        words = {line.split(" ")[0] for line in lines}
        assert {"the", "film"} < words == {word.lower() for word in words}
    assert "18 runs, 0 of them done\n\n| variant | accuracy |" in shown
    assert "| trainable |  |  | 0 |  |  |\n" in shown
    assert "\n1 of 18: trainable, seed 1: accuracy 0." in shown
    rows = list(csv.reader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert rows[0] == ["variant", "accuracy", "standard deviation", "runs", "seed 1", "seed 2"]
    assert [row[0] for row in rows[1:]] == list(VARIANTS)
    assert (tmp_path / "out" / "results.md").read_text() in shown
    assert (tmp_path / "out" / "results.png").read_bytes().startswith(b"\x89PNG")


def test_runs_that_are_done_are_not_trained_again(elmo, trained, tmp_path, capsys):
    arguments = ["compare", CONFIG, tmp_path / "out", "--overrides", SMALL, "--variants", "svd", "no-elmo"]
    assert elmo(*arguments, "--seeds", 1) == 0
    vectors = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("svd-*")}
    assert len(vectors) == 1
    assert elmo(*arguments, "--seeds", 1, 2) == 0
    assert [str(run) for run in trained[2:]] == ["svd, seed 2", "no-elmo, seed 2"]
    shown = capsys.readouterr().out
    assert "4 runs, 2 of them done\n" in shown
    assert "\n3 of 4: svd, seed 2" in shown
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("svd-*")} == vectors


def test_vectors_of_another_size_are_trained_anew(elmo, trained, tmp_path):
    for seed, dim in ((1, 6), (2, 4)):
        size = json.dumps({"model.text_field_embedder.token_embedders.tokens.embedding_dim": dim})
        out = ["compare", CONFIG, tmp_path / "out", "--variants", "svd", "--seeds", seed]
        assert elmo(*out, "--overrides", size) == 0
        tokens = trained[-1].config["model"]["text_field_embedder"]["token_embedders"]["tokens"]
        assert tokens["embedding_dim"] == dim


def test_vectors_of_a_file(elmo, trained, tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 2 3\n")
    out = ["compare", CONFIG, tmp_path / "out", "--seeds", 1, "--variants", "word2vec"]
    assert elmo(*out, "--word2vec", tmp_path / "glove.txt") == 0
    (run,) = trained
    assert run.config["model"]["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"] == 3


def test_mlflow(elmo, trained, tmp_path):
    arguments = ["--seeds", 1, "--variants", "frozen", "--mlflow", "http://store"]
    assert elmo("compare", CONFIG, tmp_path / "out", *arguments) == 0
    *others, callback = trained[0].config["trainer"]["callbacks"]
    assert {"type": "elmo_safe"} not in others
    assert len(others) == 2
    assert callback == {
        "type": "elmo_mlflow",
        "tracking_uri": "http://store",
        "experiment": "sst2_elmo",
        "run_name": "frozen, seed 1",
    }


@pytest.mark.parametrize(
    ("config", "overrides", "message"),
    [
        (
            "sst2_elmo",
            '{"model.text_field_embedder.token_embedders": {"words": {"type": "embedding"}}}',
            "svd: found no 'tokens' in the config, expected an embedding and an indexer named 'tokens'",
        ),
    ],
)
def test_errors(elmo, tmp_path, capsys, config, overrides, message):
    path = CONFIG.with_name(f"{config}.jsonnet")
    assert elmo("compare", path, tmp_path / "out", "--variants", "svd", "--overrides", overrides) == 1
    assert message in capsys.readouterr().err


def test_unknown_variant(elmo, capsys):
    assert elmo("compare", CONFIG, "out", "--variants", "fixed") == 2
    assert "invalid choice: 'fixed'" in capsys.readouterr().err
