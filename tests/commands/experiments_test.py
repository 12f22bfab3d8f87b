"""`allennlp elmo compare` and `ablate`; tests/training/experiments_test.py trains runs."""

import csv
import gzip
import json
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.experiments import VARIANTS, Compare, sample_table
from elmo_tasks.common.files import bundled
from elmo_tasks.common.table import Table
from elmo_tasks.training.experiments import NO_ELMO, Setting, plan
from tests.training.runs import finish

CONFIGS = bundled("training_configs").resolve()
SST, SST2 = CONFIGS / "sst_elmo.jsonnet", CONFIGS / "sst2_elmo.jsonnet"


def read_config(path: Path, overrides: str = "") -> dict:
    verb = Compare(config=str(path), output=Path("out"), overrides=overrides, include_package=[])
    return verb.elmo_config()


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ("{model: 3}", "model.elmo"),
        (f"import '{CONFIGS / 'sst2.jsonnet'}'", "model.elmo"),
        (f"(import '{SST2}') + {{model+: {{elmo+: {{placement: 'none'}}}}}}", "model.elmo"),
        ("{model: {elmo: {}}, trainer: {validation_metric: ['+f1']}}", "trainer.validation_metric"),
        (f"(import '{SST2}') + {{validation_data_path: null}}", "validation_data_path"),
    ],
)
def test_configs_that_cannot_be_varied(tmp_path, config, key):
    path = tmp_path / "a.jsonnet"
    path.write_text(config)
    with pytest.raises(ConfigurationError, match=f"^{path}: {key}"):
        read_config(path)


class TestCompare:
    SIZE = "model.text_field_embedder.token_embedders.tokens.embedding_dim"

    @staticmethod
    def tokens(run) -> dict:
        return run.config["model"]["text_field_embedder"]["token_embedders"]["tokens"]

    @pytest.fixture
    def compare(self, elmo, tmp_path):
        def run(*arguments, dim: int = 6, config: Path = SST2) -> int:
            overrides = json.dumps({self.SIZE: dim, "model.elmo.mix_l2": 0.1})
            return elmo("compare", config, tmp_path / "out", "--overrides", overrides, *arguments)

        return run

    def test_all_variants(self, compare, trained, tmp_path, capsys):
        pytest.importorskip("gensim")
        assert compare("--seeds", 1, 2) == 0
        shown = capsys.readouterr().out
        assert [(run.variant, run.seed) for run in trained] == [
            (name, seed) for seed in (1, 2) for name in VARIANTS
        ]
        blocks = {run.variant: run.config["model"]["elmo"] for run in trained}
        assert [(blocks[name].get("weights"), blocks[name].get("gamma")) for name in VARIANTS[:6]] == [
            (weights, gamma) for weights in ("trainable", "frozen", "function") for gamma in (True, False)
        ]
        penalised = {name for name in VARIANTS if blocks[name]["mix_l2"] is not None}
        assert penalised == {"trainable", "trainable-no-gamma", "function", "function-no-gamma"}
        without = {name for name in VARIANTS if blocks[name]["placement"] == "none"}
        assert without == {"no-elmo", "word2vec", "svd"}
        embeddings = {run.variant: self.tokens(run) for run in trained}
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

    def test_vectors_of_a_file(self, compare, trained, tmp_path):
        (tmp_path / "glove.txt").write_text("the 1 2 3\n")
        files = ("--variants", "word2vec", "--word2vec", tmp_path / "glove.txt")
        assert compare("--seeds", 1, *files) == 0
        assert self.tokens(trained[0])["embedding_dim"] == 3

    def test_mlflow(self, compare, trained, tmp_path):
        assert compare("--seeds", 1, 2, "--variants", "frozen", "--mlflow") == 0
        # A corrected store for the same runs
        assert compare("--seeds", 1, 3, "--variants", "frozen", "--mlflow", "http://store") == 0
        own = f"sqlite:///{tmp_path / 'out' / 'mlflow.db'}"
        assert [run.tracking_uri for run in trained] == [own, own, "http://store"]
        *others, callback = trained[0].config["trainer"]["callbacks"]
        assert {"type": "elmo_safe"} not in others
        assert len(others) == 2
        names = {"experiment": "sst2_elmo", "run_name": "frozen, seed 1"}
        assert callback == {"type": "elmo_mlflow", **names}


class TestAblate:
    SETTINGS = (
        *("none", "input+output-top", "input+output-all-lambda-1", "input+output-all-lambda-0.001"),
        *("input-all-lambda-0.001", "output-all-lambda-0.001"),
        *("input+output-all-lambda-0.001-fraction-0.1", "none-fraction-0.1"),
    )

    @staticmethod
    def score_of(runs, variant, seed):
        (run,) = (run for run in runs if (run.variant, run.seed) == (variant, seed))
        return max(run.scores("accuracy"))

    def test_all_tables(self, elmo, trained, tmp_path, capsys):
        out = tmp_path / "out"
        assert elmo("ablate", SST, out, "--seeds", 1, 2, "--fractions", 1, 0.1) == 0
        shown = capsys.readouterr().out
        # A setting of two tables is trained once.
        assert [(run.variant, run.seed) for run in trained] == [
            (name, seed) for seed in (1, 2) for name in self.SETTINGS
        ]
        assert "16 runs, 0 of them done\n\n| variant | accuracy |" in shown
        assert "\n1 of 16: none, seed 1: accuracy 0." in shown
        names = ("layers", "placement", "samples")
        layers, placement, samples = (Table.read(out / f"{name}.csv") for name in names)
        assert layers.columns == ("variant", "accuracy", "standard deviation", "runs", "seed 1", "seed 2")
        rows = ["no ELMo", "top layer", "all layers, lambda 1", "all layers, lambda 0.001"]
        assert layers.column("variant") == rows
        expected = [self.score_of(trained, name, 2) for name in self.SETTINGS[:4]]
        assert layers.column("seed 2") == expected
        assert placement.column("variant") == ["no ELMo", "input", "input+output", "output"]
        assert placement.rows[2][1:] == layers.rows[3][1:]
        sizes = [(part, size, name) for part, size in ((0.1, 49), (1.0, 487)) for name in ("without", "with")]
        assert [row[:3] for row in samples.rows] == sizes
        assert samples.column("accuracy")[2:] == [row[1] for row in (layers.rows[0], layers.rows[3])]
        for name in names:
            assert (out / f"{name}.md").read_text() in shown
            assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")

    def test_runs_that_are_done_are_not_trained_again(self, elmo, trained, tmp_path, capsys):
        first = ("ablate", SST, tmp_path / "out", "--seeds", 1)
        assert elmo(*first, "--tables", "placement") == 0
        assert len(trained) == 4
        assert elmo(*first, "--tables", "layers") == 0
        assert [run.variant for run in trained[4:]] == [*self.SETTINGS[1:3]]
        assert "4 runs, 2 of them done\n" in capsys.readouterr().out
        assert elmo(*first, 2, "--tables", "layers") == 0
        assert [str(run) for run in trained[6:]] == [f"{name}, seed 2" for name in self.SETTINGS[:4]]

    @pytest.mark.parametrize("metric", ["+accuracy", "-accuracy"])
    def test_epochs_to_the_best_score(self, tmp_path, metric):
        """Both seeds with ELMo reach the baseline with all data, one of them with a tenth of it."""
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


OTHER_WORDS = {"model.text_field_embedder.token_embedders": {"words": {"type": "embedding"}}}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["compare", SST2, "out", "--variants", "svd", "-o", json.dumps(OTHER_WORDS)], 1, "svd: "),
        (["compare", SST2, "out", "--variants", "fixed"], 2, "invalid choice: 'fixed'"),
        (["ablate", SST, "out", "--fractions", "0.0001"], 1, "0.0001"),
        (["ablate", SST, "out", "--fractions", "2"], 2, "'2' is not"),
        (["ablate", SST, "out", "-o", '{"model.elmo.weights": "frozen"}'], 1, "model.elmo.weights"),
    ],
)
def test_errors(elmo, tmp_path, capsys, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    assert elmo(*arguments) == code
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*.csv"))
