"""What every task promises: ELMo at each placement, one run of the biLM a batch, one result in any batch."""

import json
from itertools import islice

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.common.files import bundled
from tests.models_test import assert_near
from tests.modules.models import check_gradients, indexed, tensors
from tests.pipeline.archives import predictor_of

SENTENCES = [{"sentence": text} for text in ("Ana flew.", "", "Lisbon is in Portugal .", "A " * 70)]
PASSAGE = "Ana met Leo in Leeds. They had not met before."
INPUTS = {
    "ner": SENTENCES,
    "srl": [{"tokens": ["Ana", "sleeps", ".", *more], "predicates": [1]} for more in ([], ["No", "!"])],
    "coref": [
        *({"document": text} for text in ("Ana met Leo. She smiled.", " ", "The cat saw it.")),
        {"tokens": ["Ana"]},
    ],
    "squad": [
        {"passage": PASSAGE, "question": "Who met Leo?"},
        {"passage": " ", "question": "Who?"},
        {"passage": PASSAGE[:21], "question": "Where did Ana meet him?"},
    ],
    "snli": [
        {"premise": "Two boys don't sleep.", "hypothesis": "Nobody sleeps."},
        {"premise": "Rain", "hypothesis": "The very small dog sleeps in Leeds ."},
        {"premise": "Rain", "hypothesis": " "},
    ],
    "sst": SENTENCES,
    "agnews": SENTENCES,
    "sentence": SENTENCES,
    "mrpc": [{"sentence1": "It's here.", "sentence2": "No"}, {"sentence1": "He", "sentence2": "He said no."}],
}
"""For each config some inputs, of which some are without words."""
by_config = pytest.mark.parametrize("config", INPUTS)


def instances_of(predictor: Predictor, config: str) -> list[Instance]:
    """Returns labelled instances of one batch."""
    path = Params.from_file(str(bundled(f"training_configs/{config}_elmo.jsonnet")))["validation_data_path"]
    reader = predictor._dataset_reader
    return indexed(reader, islice(reader.read(path), 1 if config == "coref" else 4))


@pytest.mark.parametrize("placement", ["none", "input", "output", "input+output"])
@by_config
def test_every_weight_learns_at_each_placement(config, placement):
    predictor = predictor_of(config, **{"elmo.placement": placement, "elmo.mix_l2": None})
    model = predictor._model
    assert model.input_dim == model.text_field_embedder.get_output_dim() + (
        model.elmo.dim if "input" in placement else 0
    )
    assert model.elmo_output_dim == (model.elmo.dim if "output" in placement else 0)
    check_gradients(model, tensors(instances_of(predictor, config), model.vocab))


@pytest.mark.parametrize("config", [config for config in INPUTS if config != "squad"])
def test_the_bilm_runs_once_a_batch(config, monkeypatch):
    predictor = predictor_of(config, **{"elmo.placement": "input+output"})
    model, calls = predictor._model, []
    encode = model.elmo.bilm.encode
    monkeypatch.setattr(model.elmo.bilm, "encode", lambda *inputs: calls.append(1) or encode(*inputs))
    model(**tensors(instances_of(predictor, config), model.vocab))
    assert calls == [1]


@by_config
def test_dropout_in_training_only(config):
    predictor = predictor_of(config)
    model, batch = predictor._model, tensors(instances_of(predictor, config), predictor._model.vocab)
    first, second = (model.eval()(**batch)["loss"] for _ in range(2))
    assert torch.equal(first, second)
    first, second = (model.train()(**batch)["loss"] for _ in range(2))
    assert not torch.equal(first, second)


@by_config
def test_an_input_has_one_result_alone_and_in_any_batch(config):
    predictor, inputs = predictor_of(config), INPUTS[config]
    alone = [predictor.predict_json(each) for each in inputs]
    assert json.loads(json.dumps(alone)) == alone
    assert_near(predictor.predict_batch_json(inputs), alone)
    assert_near(predictor.predict_batch_json(inputs[::-1])[::-1], alone)


NO_ENTITIES = {"tokens": [], "tags": [], "entities": []}
NO_CLUSTERS = {"tokens": [], "clusters": [], "mentions": [], "marked": "", "pronouns": [], "resolved": ""}

NO_LABEL = {"label": None, "probabilities": {}}
AB = {"sentence1_tokens": ["A", "b"], "sentence2_tokens": []}
UNALIGNED = {"premise_tokens": ["A", "b"], "hypothesis_tokens": []}
UNALIGNED |= {"premise_to_hypothesis": [], "hypothesis_to_premise": []}


@pytest.mark.parametrize(
    ("config", "inputs", "result"),
    [
        ("ner", [{"sentence": " \n"}, {"tokens": []}], NO_ENTITIES),
        ("srl", [{"sentence": " \n"}, {"tokens": [], "predicates": []}], {"tokens": [], "predicates": []}),
        ("coref", [{"document": " \n\n "}, {"tokens": []}, {"sentences": []}], NO_CLUSTERS),
        ("sst", [{"sentence": " \n"}, {"tokens": []}], NO_LABEL | {"tokens": [], "attention": []}),
        (
            "sentence",
            [{"sentence": " \n"}, {"tokens": []}],
            {"tokens": [], "vector": [0.0] * 16, "scores": [0.0] * 2},
        ),
        ("klue_tc", [{"sentence": " "}], NO_LABEL | {"sentence1_tokens": []}),
        ("mrpc", [{"sentence1": "A b", "sentence2": ""}], NO_LABEL | AB),
        ("snli", [{"premise": "A b", "hypothesis": " "}], NO_LABEL | UNALIGNED),
    ],
)
def test_inputs_without_words(config, inputs, result):
    predictor = predictor_of(config)
    assert predictor.predict_batch_json(inputs) == [result] * len(inputs)
