"""Our readers with models of allennlp-models, and within other readers."""

import json
import math
import shutil

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.util import import_module_and_submodules
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.models import load_archive
from allennlp.predictors import Predictor
from allennlp.training.util import evaluate

from elmo_tasks.common.files import bundled
from elmo_tasks.data.formats.tables import ENTAILMENT_LABELS

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


@pytest.fixture(scope="module", autouse=True)
def _registered():
    import_module_and_submodules("allennlp_models")


def run(tmp_path, reader, model, train, dev):
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


def fixture(task, part):
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
    dev = fixture(task, "dev")
    run(tmp_path, {"type": f"elmo_{task}"}, model, fixture(task, "train"), dev)
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
        shutil.copy(fixture("snli", part), tmp_path / part)
    ours = {"type": "elmo_snli"}
    if outer == "sharded":
        reader = {"type": outer, "base_reader": ours}
        paths = [str(tmp_path / part) for part in ("train", "dev")]
    else:
        reader = {"type": outer, "readers": {"a": ours, "b": ours}}
        paths = [json.dumps(dict.fromkeys("ab", str(tmp_path / part))) for part in ("train", "dev")]
    run(tmp_path, reader, "elmo_snli", *paths)
    predictor = Predictor.from_path(str(tmp_path / "run/model.tar.gz"), import_plugins=False)
    assert predictor.predict("A cat sleeps.", "It sleeps.")["label"] in ENTAILMENT_LABELS
    archive = load_archive(tmp_path / "run/model.tar.gz")
    loader = SimpleDataLoader(list(archive.validation_dataset_reader.read(paths[1])), batch_size=8)
    loader.index_with(archive.model.vocab)
    assert math.isfinite(evaluate(archive.model, loader)["loss"])
