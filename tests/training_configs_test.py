"""Every config builds and takes a training step; wrong values are errors."""

import json
import math

import pytest
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment

from elmo_tasks.common.files import bundled

CONFIGS = sorted(bundled("training_configs").resolve().glob("*.jsonnet"))
TEXT = str(bundled("fixtures/language_model/train.txt").resolve())
VOCABULARY = str(bundled("pretrained/english/vocab.txt").resolve())
ENGLISH = {
    "train_data_path": TEXT,
    "validation_data_path": str(bundled("fixtures/elmo/raw.txt").resolve()),
    "vocabulary.words_file": VOCABULARY,
    "model.softmax.num_samples": 100,
    "trainer.callbacks": [],
}
SMALL = {"model.options.lstm.dim": 16, "model.options.lstm.projection_dim": 16}
FROM_THE_WEIGHTS = ENGLISH | {
    key: str(bundled(f"pretrained/english/{file}").resolve())
    for key, file in (("model.options_file", "options.json"), ("model.weight_file", "weights.safetensors"))
}
OVERRIDES = {
    **dict.fromkeys(("bilm_words", "bilm_words_depth1", "bilm_words_depth2"), SMALL),
    "bilm_english": ENGLISH | SMALL,
    "bilm_english_last": FROM_THE_WEIGHTS,
    "bilm_english_gpu": FROM_THE_WEIGHTS
    | {
        "trainer.cuda_device": -1,
        "model.precision": "float32",
        "dataset_reader.streams": 8,
        "data_loader.num_workers": 0,
    },
}
"""For large configs, and configs whose data does not come with the project."""
ELMO = bundled("training_configs/lib/elmo.libsonnet").resolve()


def evaluate(tmp_path, source):
    (tmp_path / "probe.jsonnet").write_text(f"local elmo = import '{ELMO}';\n{source}")
    return Params.from_file(str(tmp_path / "probe.jsonnet")).as_dict()


ON_THE_PAGES = [f"{task}_elmo" for task in ("coref", "ner", "snli", "squad", "sst")]
ON_THE_PAGES += ["agnews_bilm", "bilm", "bilm_finetune", "bilm_official", "petitions_bilm"]
"""Configs that `readme_test` trains."""
FITTED = ["classifier_linear_elmo"]
"""The config that `classification/linear_test.py` trains, which takes no steps."""


@pytest.mark.parametrize(
    "config",
    [path for path in CONFIGS if path.stem not in [*ON_THE_PAGES, *FITTED]],
    ids=lambda path: path.stem,
)
def test_builds_and_takes_a_step(config, tmp_path, monkeypatch):
    # From a folder outside of the project
    monkeypatch.chdir(tmp_path)
    short = {"trainer.num_epochs": 1, "data_loader.batches_per_epoch": 1}
    params = Params.from_file(str(config), json.dumps(short | OVERRIDES.get(config.stem, {})))
    validation_metric = params["trainer"]["validation_metric"].lstrip("+-")
    prepare_environment(params)
    metrics = TrainModel.from_params(params=params, serialization_dir="run", local_rank=0).run()
    assert metrics["training_loss"] > 0
    assert math.isfinite(metrics[f"validation_{validation_metric}"])


def test_the_plain_keys_of_the_classifier(tmp_path):
    config = bundled("training_configs/classifier.jsonnet").resolve()
    keys = "text:: 'a', text2:: 'b', label:: 'c', classes:: ['x', 'y'], train:: 't.csv', tokenizer:: 'de'"
    (tmp_path / "mine.jsonnet").write_text(f"(import '{config}') + {{ {keys} }}")
    mine = Params.from_file(str(tmp_path / "mine.jsonnet")).as_dict(quiet=True)
    names = ("sentence1", "sentence2", "label", "classes", "tokenizer")
    assert [mine["dataset_reader"][name] for name in names] == ["a", "b", "c", ["x", "y"], "de"]
    assert mine["train_data_path"] == "t.csv"
    assert mine["model"]["pairs"] is True
    assert mine["model"]["elmo"]["placement"] == "input+output"


def test_elmo_is_the_baseline_and_two_blocks():
    baseline, with_elmo = (
        Params.from_file(str(bundled(f"training_configs/{name}.jsonnet"))).as_dict()
        for name in ("ner", "ner_elmo")
    )
    assert with_elmo["model"].pop("elmo") == {"placement": "input", "dropout": 0.0, "mix_l2": 0.1}
    indexers = with_elmo["dataset_reader"]["token_indexers"]
    assert indexers.pop("elmo") == {"type": "elmo_character_ids"}
    assert with_elmo == baseline


@pytest.mark.parametrize("function", ["block", "plug", "indexers"])
def test_misspelt_placement_fails_when_the_config_is_evaluated(tmp_path, function):
    with pytest.raises(RuntimeError, match='placement is "inptu"'):
        evaluate(tmp_path, f"{{ x: elmo.{function}('inptu') }}")


def test_there_is_no_penalty_without_a_mix(tmp_path):
    with pytest.raises(RuntimeError, match="mix_l2"):
        evaluate(tmp_path, "{ x: elmo.plug('none', mix_l2=0.1) }")
