"""Our ELMo in the models of allennlp-models, and our readers with them, and within other readers."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.util import import_module_and_submodules, prepare_environment
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.models import load_archive
from allennlp.predictors import Predictor
from allennlp.training.util import evaluate

from elmo_tasks.common.files import bundled
from elmo_tasks.data.formats.tables import ENTAILMENT_LABELS

CONFIGS = sorted(bundled("training_configs/allennlp").resolve().glob("*.jsonnet"))


@pytest.fixture(scope="module", autouse=True)
def _registered():
    import_module_and_submodules("allennlp_models")


def gold_conll(folder: Path) -> dict[str, str]:
    """Writes the fixtures of semantic roles as the reader of allennlp-models expects them."""
    paths = {}
    for part, key in (("train", "train_data_path"), ("dev", "validation_data_path")):
        (folder / part).mkdir()
        shutil.copy(bundled(f"fixtures/srl/{part}.conll"), folder / part / "part.gold_conll")
        paths[key] = str(folder / part)
    return paths


def small(config: Path, elmo: Path) -> dict[str, Any]:
    """Overrides for one epoch with the biLM in a folder, projected to the width of the default one."""
    name = "words" if config.stem == "bcn_elmo" else "elmo"
    block = f"model.text_field_embedder.token_embedders.{name}"
    return {
        f"{block}.options_file": str(elmo / "options.json"),
        f"{block}.weight_file": str(elmo / "weights.safetensors"),
        f"{block}.projection_dim": 256,
        "trainer.num_epochs": 1,
    }


@pytest.mark.slow
def test_several_workers(allennlp, tmp_path):
    """The penalty's regularizer, and frozen weights, in a model that each of two processes has."""
    config = bundled("training_configs/allennlp/crf_tagger_elmo.jsonnet").resolve()
    overrides = {
        **small(config, bundled("fixtures/elmo").resolve()),
        "distributed": {"cuda_devices": [-1, -1]},
        "model.calculate_span_f1": False,  # AllenNLP's own measure knows one process
        "trainer.validation_metric": "+accuracy",
        "validation_data_loader": {"batch_size": 1},
    }
    folder = tmp_path / "run"
    allennlp("train", config, "-s", folder, "-o", json.dumps(overrides))
    together = json.loads((folder / "metrics.json").read_text())
    assert together["training_reg_loss"] > 0
    dev = Params.from_file(str(config))["validation_data_path"]
    archive = load_archive(folder / "model.tar.gz")
    loader = SimpleDataLoader(list(archive.validation_dataset_reader.read(dev)), batch_size=16)
    loader.index_with(archive.model.vocab)
    alone = evaluate(archive.model, loader)
    assert together["best_validation_accuracy"] == pytest.approx(alone["accuracy"], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_each_trains_and_its_archive_alone_evaluates_and_predicts(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundled("fixtures/elmo"), "elmo")
    overrides = {
        **small(config, Path("elmo")),
        "data_loader.batches_per_epoch": 2,
        **(gold_conll(tmp_path) if config.stem == "srl_elmo" else {}),
    }
    params = Params.from_file(str(config), json.dumps(overrides))
    dev_path, metric = params["validation_data_path"], params["trainer"]["validation_metric"][1:]
    prepare_environment(params)
    trained = train_model(params, "run", return_model=True).eval()
    written = json.loads(Path("run/metrics.json").read_text())
    assert "training_reg_loss" in written
    shutil.rmtree("elmo")

    archive = load_archive("run/model.tar.gz")
    instances = list(archive.validation_dataset_reader.read(dev_path))[:4]
    loader = SimpleDataLoader(instances, batch_size=1)
    loader.index_with(archive.model.vocab)
    metrics = evaluate(archive.model, loader)
    assert math.isfinite(metrics["loss"])
    assert metric in metrics
    expected, outputs = (model.forward_on_instance(instances[0]) for model in (trained, archive.model))
    assert expected.keys() == outputs.keys()
    torch.testing.assert_close(outputs["loss"], expected["loss"])


EMBEDDER = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 8}}}
LSTM = {"type": "lstm", "input_size": 8, "hidden_size": 4, "bidirectional": True}
HIGHWAY = {"type": "alternating_lstm", "input_size": 10, "hidden_size": 8, "num_layers": 2}
FEEDFORWARD = {"input_dim": 8, "num_layers": 1, "hidden_dims": 8, "activations": "relu", "dropout": 0.0}
MODELS = {
    "crf_tagger": {"encoder": LSTM, "label_encoding": "BIOUL"},
    "srl": {"encoder": HIGHWAY, "binary_feature_dim": 2},
    "bidaf": {
        "num_highway_layers": 1,
        "phrase_layer": LSTM,
        "matrix_attention": {"type": "dot_product"},
        "modeling_layer": LSTM | {"input_size": 32},
        "span_end_encoder": LSTM | {"input_size": 56},
        "dropout": 0.0,
    },
    "decomposable_attention": {
        "attend_feedforward": FEEDFORWARD,
        "matrix_attention": {"type": "dot_product"},
        "compare_feedforward": FEEDFORWARD | {"input_dim": 16},
        "aggregate_feedforward": FEEDFORWARD | {"input_dim": 16, "hidden_dims": 3},
    },
    "elmo_snli": {"hidden_size": 4, "dropout": 0.0, "attention_dropout": 0.0},
}


def train_on(tmp_path, reader, model, train, dev):
    config = {
        "dataset_reader": reader,
        "train_data_path": train,
        "validation_data_path": dev,
        "model": {"type": model, "text_field_embedder": EMBEDDER, **MODELS[model]},
        "data_loader": {"batch_size": 8, "batches_per_epoch": 2},
        "validation_data_loader": {"batch_size": 8},
        "trainer": {"optimizer": "adam", "num_epochs": 1},
    }
    return train_model(Params(json.loads(json.dumps(config))), str(tmp_path / "run"))


def data_of(task, part):
    (path,) = bundled(f"fixtures/{task}").resolve().glob(f"{part}.[cjt]*[nlt]")
    return str(path)


@pytest.mark.parametrize(
    ("task", "model", "outputs"),
    [
        ("ner", "crf_tagger", {"tags", "words"}),
        ("srl", "srl", {"tags", "words", "verb"}),
        ("squad", "bidaf", {"best_span_str"}),
        ("snli", "decomposable_attention", {"premise_tokens"}),
    ],
)
def test_our_readers_with_models_of_allennlp(tmp_path, task, model, outputs):
    dev = data_of(task, "dev")
    train_on(tmp_path, {"type": f"elmo_{task}"}, model, data_of(task, "train"), dev)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert all(math.isfinite(value) for name, value in metrics.items() if name.endswith("loss"))
    archive = load_archive(tmp_path / "run/model.tar.gz")
    instances = list(archive.validation_dataset_reader.read(dev))[:3]
    loader = SimpleDataLoader(instances, batch_size=2)
    loader.index_with(archive.model.vocab)
    assert math.isfinite(evaluate(archive.model, loader)["loss"])
    assert outputs <= archive.model.forward_on_instances(instances)[0].keys()
    if task == "squad":
        result = Predictor.from_archive(archive).predict_json({"question": "Who?", "passage": "Ann came."})
        assert result["passage_tokens"] == ["Ann", "came", "."]
    if task == "snli":
        result = Predictor.from_archive(archive).predict_json({"premise": "A b", "hypothesis": "c"})
        assert result["premise_tokens"] == ["A", "b"]


@pytest.mark.parametrize("outer", ["sharded", "interleaving"])
def test_readers_around_ours(tmp_path, outer):
    """Sentences of several folders train a model, and its archive predicts JSON Lines."""
    for part in ("train", "dev"):
        (tmp_path / part).mkdir()
        shutil.copy(data_of("snli", part), tmp_path / part)
    ours = {"type": "elmo_snli"}
    if outer == "sharded":
        reader = {"type": outer, "base_reader": ours}
        paths = [str(tmp_path / part) for part in ("train", "dev")]
    else:
        reader = {"type": outer, "readers": {"a": ours, "b": ours}}
        paths = [json.dumps(dict.fromkeys("ab", str(tmp_path / part))) for part in ("train", "dev")]
    train_on(tmp_path, reader, "elmo_snli", *paths)
    predictor = Predictor.from_path(str(tmp_path / "run/model.tar.gz"), import_plugins=False)
    assert predictor.predict("A cat sleeps.", "It sleeps.")["label"] in ENTAILMENT_LABELS
    archive = load_archive(tmp_path / "run/model.tar.gz")
    loader = SimpleDataLoader(list(archive.validation_dataset_reader.read(paths[1])), batch_size=8)
    loader.index_with(archive.model.vocab)
    assert math.isfinite(evaluate(archive.model, loader)["loss"])
