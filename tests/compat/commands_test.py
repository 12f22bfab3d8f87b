"""Each repair of a command of AllenNLP, through the command's own function."""

import json
import shutil
import tarfile
from argparse import Namespace

import pytest
from allennlp.commands import train
from allennlp.commands.build_vocab import build_vocab_from_args
from allennlp.commands.count_instances import count_instances_from_args
from allennlp.commands.diff import _diff
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.files import bundled
from elmo_tasks.compat import commands
from elmo_tasks.ner import NerModel
from tests.elmo.files import make_files
from tests.ner.archives import DEV, write_run

NER = str(bundled("training_configs/ner.jsonnet").resolve())


def test_repairs_may_be_applied_twice():
    before = evaluate_from_archive
    commands.repair()
    assert commands.evaluate.evaluate_from_archive is before


def test_evaluate_takes_batches_of_another_size(trained_ner, monkeypatch):
    sizes = []
    forward = NerModel.forward
    monkeypatch.setattr(
        NerModel,
        "forward",
        lambda self, **batch: sizes.append(len(batch["metadata"])) or forward(self, **batch),
    )
    archive = trained_ner / "model.tar.gz"
    expected = evaluate_from_archive(archive, DEV)
    assert max(sizes) > 3
    sizes.clear()
    assert evaluate_from_archive(archive, DEV, batch_size=3)["f1"] == expected["f1"]
    assert max(sizes) == 3
    with pytest.raises(ValueError, match="--batch-size is 0, expected a whole number from 1"):
        evaluate_from_archive(archive, DEV, batch_size=0)


@pytest.mark.parametrize("output", ["metrics_output_file", "predictions_output_file"])
@pytest.mark.parametrize(
    ("file", "message"),
    [("nothing/out", "found no folder .*nothing, expected one"), ("", "found a folder, expected the name")],
)
def test_evaluate_computes_nothing_that_it_cannot_write(tmp_path, output, file, message):
    with pytest.raises(ConfigurationError, match=message):
        evaluate_from_archive("model.tar.gz", DEV, **{output: f"{tmp_path}/{file}"})


@pytest.mark.parametrize("output", ["metrics_output_file", "predictions_output_file"])
@pytest.mark.parametrize("kept", ["model.tar.gz", "dev.conll"])
def test_evaluate_overwrites_nothing_that_it_reads(tmp_path, output, kept):
    paths = {name: tmp_path / name for name in ("model.tar.gz", "dev.conll")}
    for path in paths.values():
        path.write_text("mine")
    with pytest.raises(ConfigurationError, match=f"{kept} is the input, expected another file"):
        evaluate_from_archive(*map(str, paths.values()), **{output: str(paths[kept])})
    assert paths[kept].read_text() == "mine"


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"metrics_output_file": "a"}, "--output-file: found 1 names, expected 2, one for each of the data"),
        (
            {"predictions_output_file": "a,b,c"},
            "--predictions-output-file: found 3 names, expected 2, one for each of the data",
        ),
        (
            {"metrics_output_file": "a,b", "predictions_output_file": "c,b"},
            "found one output twice in a, b, c, b, expected different files",
        ),
        ({}, "found several data with the name dev, expected --output-file with one name for each"),
    ],
)
def test_evaluate_of_several_data(outputs, message):
    with pytest.raises(ConfigurationError) as caught:
        evaluate_from_archive("model.tar.gz", "one/dev.conll,two/dev.conll", **outputs)
    assert str(caught.value) == message


def test_evaluate_of_data_of_which_some_have_no_gold_annotation(trained_ner, tmp_path, monkeypatch):
    forward = NerModel.forward

    def without_loss_for_one(self, **batch):
        outputs = forward(self, **batch)
        if len(batch["metadata"]) == 1:
            del outputs["loss"]
        return outputs

    monkeypatch.setattr(NerModel, "forward", without_loss_for_one)
    word = "Ana NNP B-NP B-PER\n"
    (tmp_path / "dev.conll").write_text(f"{word}\n{word}\n{word}")
    with pytest.raises(ConfigurationError, match="found some data with gold annotation and some without"):
        evaluate_from_archive(trained_ner / "model.tar.gz", str(tmp_path / "dev.conll"), batch_size=2)


def test_evaluate_of_data_that_look_like_a_number(trained_ner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2012").write_text("Ana NNP B-NP B-PER\n")
    assert "f1" in evaluate_from_archive(trained_ner / "model.tar.gz", "2012")


@pytest.mark.parametrize(("names", "written"), [("ALL", ["preds", "outputs"]), ("METRICS", ["outputs"])])
def test_evaluate_names_its_files(trained_ner, tmp_path, names, written):
    (tmp_path / "dev.conll").write_text("Ana NNP B-NP B-PER\n")
    metrics = evaluate_from_archive(
        trained_ner / "model.tar.gz", str(tmp_path / "dev.conll"), auto_names=names
    )
    assert {path.suffix for path in tmp_path.iterdir()} == {".conll", *(f".{kind}" for kind in written)}
    assert json.loads((tmp_path / "dev.outputs").read_text()) == metrics


@pytest.mark.parametrize("output", [None, "metrics.json"])
def test_evaluate_shows_the_metrics_once(trained_ner, tmp_path, caplog, output):
    file = output and str(tmp_path / output)
    with caplog.at_level("INFO", "allennlp.common.util"):
        metrics = evaluate_from_archive(trained_ner / "model.tar.gz", DEV, metrics_output_file=file)
    (shown,) = (record.args[0] for record in caplog.records if record.msg == "Metrics: %s")
    assert json.loads(shown) == metrics
    assert [path.name for path in tmp_path.iterdir()] == ([output] if output else [])


def test_diff_of_models_with_elmo(tmp_path, capsys):
    make_files(tmp_path / "bilm")
    for seed in range(2):
        write_run(tmp_path / f"run {seed}", seed=seed, bilm=tmp_path / "bilm")
    one, other = (str(tmp_path / f"run {seed}/best.th") for seed in range(2))
    options = {"strip_prefix_1": None, "strip_prefix_2": None, "scale": 1.0, "threshold": 1e-5}
    _diff(Namespace(checkpoint1=one, checkpoint2=other, **options))
    changed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("!")]
    assert any("transitions" in line for line in changed)
    assert not any("options" in line for line in changed)


def test_overrides_count(tmp_path, capsys):
    paths = {"train_data_path": DEV, "validation_data_path": DEV}
    overrides = json.dumps(paths | {"dataset_reader.max_instances": 7})
    count_instances_from_args(Namespace(param_path=NER, overrides=overrides))
    assert "contains 7 instances" in capsys.readouterr().out
    output = str(tmp_path / "vocabulary.tar.gz")
    overrides = json.dumps(paths | {"vocabulary.min_count": {"tokens": 20}})
    build_vocab_from_args(Namespace(param_path=NER, overrides=overrides, output_path=output, force=False))
    with tarfile.open(output) as archive:
        assert 1 < len(archive.extractfile("tokens.txt").read().split()) < 10


@pytest.mark.parametrize("left", ["nothing", "cut off", "a checkpoint"])
def test_several_processes_recover_before_their_first_checkpoint(tmp_path, monkeypatch, left):
    """The processes find the vocabulary of the data, or that of their checkpoint."""
    words = []

    def spawn(worker, *, args, nprocs):
        words.append((tmp_path / "vocabulary/tokens.txt").read_text())

    monkeypatch.setattr(train.mp, "spawn", spawn)
    monkeypatch.setattr(train, "archive_model", lambda *args, **more: None)
    overrides = json.dumps({"train_data_path": DEV, "distributed": {"cuda_devices": [-1, -1]}})
    config = Params.from_file(NER, overrides)
    train.train_model(config.duplicate(), tmp_path)
    if left == "nothing":
        shutil.rmtree(tmp_path / "vocabulary")
    else:
        (tmp_path / "vocabulary/tokens.txt").write_text("@@UNKNOWN@@\n")
    if left == "a checkpoint":
        (tmp_path / "training_state_e1_b0.th").touch()
    train.train_model(config.duplicate(), tmp_path, recover=True)
    assert words[0].count("\n") > 20
    assert words[1] == ("@@UNKNOWN@@\n" if left == "a checkpoint" else words[0])
