"""AllenNLP's commands, through their functions."""

import json
import sys
from pathlib import Path

import allennlp.commands
import pytest
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common import Params, util
from allennlp.common.checks import ConfigurationError

import elmo_tasks
from elmo_tasks.ner.model import NerModel
from elmo_tasks.ner.reader import NerReader
from tests import fresh
from tests.errors import mentions
from tests.ner.archives import DEV

OUTPUTS = ["metrics_output_file", "predictions_output_file"]


@pytest.fixture
def archive(trained_ner):
    return trained_ner / "model.tar.gz"


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of the batches that the model has read."""
    read = []
    forward = NerModel.forward

    def reading(self, **batch):
        read.append(len(batch["metadata"]))
        return forward(self, **batch)

    monkeypatch.setattr(NerModel, "forward", reading)
    return read


class TestEvaluate:
    def test_batches_of_another_size(self, archive, sizes):
        expected = evaluate_from_archive(archive, DEV)
        assert max(sizes) > 3
        sizes.clear()
        assert evaluate_from_archive(archive, DEV, batch_size=3)["f1"] == expected["f1"]
        assert max(sizes) == 3

    @pytest.mark.parametrize(
        "sampler", [{"type": "bucket", "batch_size": 5}, {"type": "elmo_bucket", "batch_size": 5}]
    )
    def test_a_line_for_each_record(self, archive, tmp_path, sampler):
        output = tmp_path / "predictions.jsonl"
        loader = {"batch_sampler": sampler, "data_path": "not what the user names"}
        overrides = json.dumps({"validation_data_loader": loader})
        evaluate_from_archive(archive, DEV, predictions_output_file=str(output), cmd_overrides=overrides)
        records = [json.loads(line) for line in output.read_text().splitlines()]
        gold = [instance["metadata"].metadata for instance in NerReader().read(DEV)]
        assert [record["tokens"] for record in records] == [sentence.words for sentence in gold]
        assert [record["metadata"]["gold_tags"] for record in records] == [each.gold_tags for each in gold]

    def test_data_of_other_types_than_the_model_finds(self, archive):
        predicates = json.dumps({"dataset_reader.format": "predicates"})
        for overrides, found in (("{}", "no spans"), (predicates, "data have V")):
            with pytest.raises(ConfigurationError, match=f"the model finds LOC.*{found}"):
                evaluate_from_archive(archive, "fixtures/srl/dev.conll", cmd_overrides=overrides)

    def test_all_data_whatever_an_epoch_of_the_training_is(self, archive, sizes):
        evaluate_from_archive(archive, DEV)
        expected = sum(sizes)
        loaders = {"validation_data_loader": None, "data_loader": {"batch_size": 8, "batches_per_epoch": 1}}
        sizes.clear()
        evaluate_from_archive(archive, DEV, cmd_overrides=json.dumps(loaders))
        assert sum(sizes) == expected

    @pytest.mark.parametrize("output", OUTPUTS)
    def test_an_output_that_cannot_be_written(self, tmp_path, output):
        """It is found before anything is read: there is no archive."""
        with pytest.raises(ConfigurationError, match="nothing"):
            evaluate_from_archive("model.tar.gz", DEV, **{output: f"{tmp_path}/nothing/out"})

    @pytest.mark.parametrize("output", OUTPUTS)
    @pytest.mark.parametrize("source", ["model.tar.gz", "dev.conll"])
    def test_an_output_that_is_read(self, tmp_path, output, source):
        paths = {name: tmp_path / name for name in ("model.tar.gz", "dev.conll")}
        for path in paths.values():
            path.write_text("mine")
        with pytest.raises(ConfigurationError, match=f"{source} is the input"):
            evaluate_from_archive(*map(str, paths.values()), **{output: str(paths[source])})
        assert paths[source].read_text() == "mine"

    def test_several_data_of_one_name(self):
        with pytest.raises(ConfigurationError, match="--output-file"):
            evaluate_from_archive("model.tar.gz", "one/dev.conll,two/dev.conll")

    @pytest.mark.parametrize("in_file", [False, True])
    def test_the_command_prints_the_metrics(self, archive, tmp_path, allennlp, in_file):
        file = tmp_path / "metrics.json"
        shown = allennlp("evaluate", archive, DEV, *(["--output-file", file] if in_file else []))
        metrics = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])
        assert metrics["f1"] == evaluate_from_archive(archive, DEV)["f1"]
        assert not in_file or metrics == json.loads(file.read_text())


CONFIG, ADAMM = "training_configs/ner_elmo.jsonnet", '{"trainer.optimizer.type": "adamm"}'


@pytest.mark.parametrize(
    ("command", "status", "nearest"),
    [
        (["elmo", "clasify"], 2, "classify"),
        (["trian"], 2, "train"),
        (["train", "ner_elmoo.jsonnet", "-s", "run"], 1, CONFIG),
        (["train", CONFIG.replace("elmo", "elmoo"), "-s", "run"], 1, CONFIG),
        (["train", CONFIG, "-s", "run", "--force", "--overrides", ADAMM], 1, "adam"),
    ],
)
def test_misspelt_names(allennlp, command, status, nearest):
    last = allennlp(*command, status=status).splitlines()[-1]
    assert mentions(last, "error: ", f"did you mean '{nearest}'?")


def test_predict_keeps_results_before_a_bad_line(allennlp, archive, tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"sentence": "Ana is here."}\n{"sentence": "broken\n')
    shown = allennlp("predict", archive, source, "--output-file", output, "--batch-size", 10, status=1)
    assert mentions(shown, "prediction: ", "in.jsonl, line 2")
    assert len(output.read_text().splitlines()) == 1


def test_predict_reads_a_column_of_a_table(allennlp, archive, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.jsonl"
    source.write_text('ticket,message\nT-1,Ana is here.\nT-2,"Oslo, too."\n')
    arguments = ["predict", archive, source, "--output-file", output, "--silent", "--text"]
    assert allennlp(*arguments, "message") == ""
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["ticket"] for line in lines] == ["T-1", "T-2"]
    assert lines[1]["tokens"] == ["Oslo", ",", "too", "."]
    table = tmp_path / "out.tsv"
    allennlp("predict", "--text", "message", archive, source, "--output-file", table, "--silent")
    header, *rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert header == ["record", "ticket", "entity", "type", "char_start", "char_end", "probability"]
    entities = [(line["ticket"], each["text"]) for line in lines for each in line["entities"]]
    assert [(row[1], row[2]) for row in rows] == entities
    # An archive may follow the column.
    sure = ["predict", "--text", "message", "--min-probability", 0.99, archive, source, "--output-file"]
    allennlp(*sure, output, "--silent")
    assert [json.loads(line)["entities"] for line in output.read_text().splitlines()] == [[], []]
    assert mentions(allennlp(*arguments, "words", status=1), "in.csv", "'words'", "ticket, message")
    assert "--use-dataset-reader" in allennlp(*arguments, "message", "--use-dataset-reader", status=1)
    assert "--text COLUMN" in allennlp("predict", "--help")


PROGRAM = """
import sys
import allennlp.commands
from allennlp.modules import elmo
# The first of these calls is AllenNLP's own, which imports elmo_tasks.
for package in ["elmo_tasks", "elmo_tasks", "elmo_tasks.drop_in"]:
    allennlp.commands.import_module_and_submodules(package)
    print(elmo.Elmo.__module__)
print(*(name for name in sys.modules if name.startswith("elmo_tasks")))
"""


@pytest.mark.slow
def test_include_package_imports_what_is_named():
    """The suite registers everything, but not what changes AllenNLP or needs an extra."""
    done = fresh.run(PROGRAM)
    assert done.returncode == 0, done.stderr
    *elmos, modules = done.stdout.splitlines()
    assert elmos == ["allennlp.modules.elmo", "allennlp.modules.elmo", "elmo_tasks.drop_in.elmo"]
    for optional in ("drop_in_stateless", "libraries", "page.app", "scale", "serving.app"):
        assert f"elmo_tasks.{optional}" not in modules.split()
    root = Path(elmo_tasks.__file__).parent
    for file in root.rglob("*.py"):
        if "\n@" in (text := file.read_text()) and ".register(" in text:
            module = ".".join(file.relative_to(root.parent).with_suffix("").parts)
            assert module.removesuffix(".__init__") in modules.split()


WITHOUT_PLUGIN = """
import os
os.environ["ELMO_TASKS_PLUGIN"] = "0"
from allennlp.common.util import import_module_and_submodules
from allennlp.models import Model
import_module_and_submodules("elmo_tasks")
Model.by_name("elmo_ner")
"""


def test_include_package_registers_the_suite_without_the_plugin():
    done = fresh.run(WITHOUT_PLUGIN)
    assert done.returncode == 0, done.stderr


def test_include_package_names_a_package_that_is_missing(in_command):
    with pytest.raises(ConfigurationError, match=r"^--include-package: .*nopackage"):
        allennlp.commands.import_module_and_submodules("nopackage.models")


def test_include_package_names_where_a_module_has_moved(in_command, tmp_path, monkeypatch):
    (tmp_path / "own_of_0_4.py").write_text("from elmo_tasks.predictors.text import SentencePredictor\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"own_of_0_4.*elmo_tasks\.pipeline\.predictor"):
        allennlp.commands.import_module_and_submodules("own_of_0_4")


@pytest.mark.parametrize(("options", "size"), [([], None), (["--batch-size", "1"], 1)])
def test_predict_takes_its_own_batch_size(in_command, monkeypatch, options, size):
    """AllenNLP's own default is 1."""
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)
    monkeypatch.setattr(sys, "argv", ["allennlp", "predict", "archive", "input", *options])
    assert allennlp.commands.parse_args()[1].batch_size == size


def test_overrides_of_commands_that_read_the_training_data(ner_config, script, allennlp, tmp_path):
    """The plug-in is there before the parser takes the functions of the commands."""
    overrides = ["--overrides", '{"train_data_path": "nosuch.conll"}']
    done = script("build-vocab", ner_config, tmp_path / "vocabulary.tar.gz", *overrides)
    assert done.returncode == 1
    assert mentions(done.stderr, "nosuch.conll")
    assert "nosuch.conll" in allennlp("count-instances", ner_config, *overrides, status=1)


def test_overrides_of_a_command_that_is_called_from_python(ner_config, tmp_path, monkeypatch):
    arguments = [
        "build-vocab",
        ner_config,
        tmp_path / "words.tar.gz",
        "-o",
        '{"train_data_path": "nosuch.conll"}',
    ]
    monkeypatch.setattr(sys, "argv", ["allennlp", *map(str, arguments)])
    with pytest.raises(ConfigurationError, match=r"nosuch\.conll"):
        allennlp.commands.main()


def test_a_module_named_as_a_sub_package_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "plugged_in/heads").mkdir(parents=True)
    for folder in ("plugged_in", "plugged_in/heads"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "heads.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    util.import_module_and_submodules("plugged_in")
    assert "heads" not in sys.modules
    for name in ("plugged_in", "plugged_in.heads"):
        del sys.modules[name]


def test_checkpoints_with_elmo_are_compared(trained_ner, allennlp):
    shown = allennlp("diff", *sorted(trained_ner.glob("model_state_*.th"))[:1] * 2)
    assert "elmo.options, shape" in shown


def test_a_block_in_place_of_another_is_warned_of(ner_config, caplog):
    overrides = {"trainer": {"cuda_device": -1}, "model.text_field_embedder": {"token_embedders": {}}}
    Params.from_file(ner_config, json.dumps(overrides | {"data_loader": {"type": "x"}}))
    (record,) = caplog.records
    assert mentions(record.getMessage(), "num_epochs", "optimizer", '{"trainer.cuda_device": -1}')
