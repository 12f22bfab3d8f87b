"""AllenNLP's interpreters and attackers, and explanations, on our predictors."""

import copy

import numpy as np
import pytest
import torch
from allennlp.common.util import sanitize
from allennlp.interpret.attackers import Hotflip, InputReduction

from elmo_tasks.pipeline.explanations import Explainer, can_explain
from tests.pipeline.archives import predictor_of

SENTENCE = {"sentence": "Two boys in Paris watched the very long game of tennis ."}
PAIR = {"sentence1": "Two boys watched the game .", "sentence2": "Somebody watched ."}
INPUTS = {
    "ner": (SENTENCE, "tokens", [12]),
    "sst": (SENTENCE, "tokens", [12]),
    "agnews": (SENTENCE, "sentence1", [12]),
    "mrpc": (PAIR, "sentence2", [6, 3]),
    "snli": ({"premise": "Two boys sleep now .", "hypothesis": "Nobody sleeps ."}, "hypothesis", [5, 3]),
    "squad": ({"passage": "Anna lives in Oslo now .", "question": "Who lives there ?"}, "question", [6, 4]),
    "coref": ({"sentences": [["Anna", "saw", "her", "dog", "."], ["She", "called", "it", "."]]}, None, [9]),
}
"""For each config an input, the field that is attacked, and the number of words of each text."""
ATTACKED = [name for name, (_, field, _) in INPUTS.items() if field]


@pytest.fixture(scope="module", params=INPUTS)
def config(request: pytest.FixtureRequest) -> str:
    return request.param


def labelled(predictor, config):
    return predictor.json_to_labeled_instances(copy.deepcopy(INPUTS[config][0]))


@pytest.mark.parametrize("through_elmo", [False, True])
def test_gradients_are_those_of_the_loss_by_what_is_read(predictor, config, through_elmo, monkeypatch):
    """A small step of the vectors changes the loss as the gradient says."""
    instance = labelled(predictor, config)[0]
    loss = predictor.get_gradients([instance])[1]["loss"].item()
    monkeypatch.setattr(predictor.gradients, "through_elmo", through_elmo)
    before = predictor.get_gradients([instance])
    gradients = [before[0][name] for name in sorted(before[0], reverse=True)]
    lengths = INPUTS[config][2]
    assert before[1]["loss"].item() == pytest.approx(loss, rel=1e-5)
    model = predictor._model
    size = model.input_dim + model.elmo_output_dim
    if through_elmo:
        size = model.text_field_embedder.get_output_dim() + model.elmo.dim // 2
    assert [gradient.shape for gradient in gradients] == [(1, length, size) for length in lengths]
    calls = iter(gradients)
    step = 1e-3 / sum(float((gradient**2).sum()) for gradient in gradients) ** 0.5

    def change(module, inputs, output):
        return output + step * torch.from_numpy(next(calls)).to(output)

    handle = predictor.get_interpretable_layer().register_forward_hook(change)
    after = predictor.get_gradients([instance])
    handle.remove()
    expected = step * sum(float((gradient**2).sum()) for gradient in gradients)
    difference = float(after[1]["loss"].detach() - before[1]["loss"].detach())
    assert difference == pytest.approx(expected, rel=0.05)


def test_a_word_counts_where_others_are_read(predictor, config, monkeypatch):
    """Through ELMo, each word has a gradient, and word vectors keep theirs."""
    instance = labelled(predictor, config)[0]
    size = predictor._model.text_field_embedder.get_output_dim()
    direct, _ = predictor.get_gradients([instance])
    monkeypatch.setattr(predictor.gradients, "through_elmo", True)
    through, _ = predictor.get_gradients([instance])
    for name, gradient in through.items():
        assert gradient[:, :, :size] == pytest.approx(direct[name][:, :, :size], rel=1e-2, abs=1e-5)
        of_words = np.abs(gradient[0, :, size:]).sum(axis=1)
        # The sentences of a document are read one by one, and a cluster may be in one of them
        assert (of_words[-4:] if config == "coref" else of_words).min() > 0


def test_the_model_is_as_before(predictor, config):
    """Its methods, and what it predicts: also of the instance whose loss is explained."""
    model, inputs = predictor._model, INPUTS[config][0]
    own, trained = set(vars(model)), [parameter.requires_grad for parameter in model.parameters()]
    result = predictor.predict_json(inputs)
    instance = labelled(predictor, config)[0]
    _, outputs = predictor.get_gradients([instance])
    assert set(vars(model)) == own
    assert [parameter.requires_grad for parameter in model.parameters()] == trained
    assert predictor.predict_json(inputs) == result
    name = next(name for name in ("label", "entities", "answer", "clusters") if name in result)
    found, expected = outputs[name][0], result[name]
    if name == "entities":  # whose probabilities are rounded
        found, expected = ([(each["text"], each["type"]) for each in row] for row in (found, expected))
    assert sanitize(found) == sanitize(expected)


@pytest.mark.parametrize("config", ATTACKED, scope="module")
def test_input_reduction(predictor, config):
    inputs, field, lengths = INPUTS[config]
    found = InputReduction(predictor).attack_from_json(
        inputs, input_field_to_attack=field, grad_input_field="grad_input_1"
    )
    assert len(found["original"]) == lengths[-1]
    for words in found["final"]:
        assert 0 < len(words) <= lengths[-1]
        remaining = iter(found["original"])
        assert all(word in remaining for word in words), "in their order"


@pytest.mark.parametrize("through_elmo", [False, True])
@pytest.mark.parametrize("config", ATTACKED, scope="module")
def test_hotflip(predictor, config, through_elmo, monkeypatch):
    monkeypatch.setattr(predictor.gradients, "through_elmo", through_elmo)
    inputs, field, lengths = INPUTS[config]
    before = predictor.predict_json(inputs)
    found = Hotflip(predictor, max_tokens=30).attack_from_json(
        inputs, input_field_to_attack=field, grad_input_field="grad_input_1"
    )
    assert len(found["original"]) == lengths[-1]
    for words in found["final"]:
        assert len(words) == lengths[-1]
        assert words != found["original"]
    # No reader keeps a word that was flipped
    assert predictor.predict_json(inputs) == before


def test_explanations_have_shares_of_both_texts():
    predictor = predictor_of("snli")
    content = {"premise_tokens": ["A", "dog"], "hypothesis_tokens": ["It", "runs", "."]}
    explained = Explainer(predictor, "simple-gradient")(content)
    assert explained["result"] == predictor.predict_json(content)
    ((premise, hypothesis),) = explained["explanations"]
    assert (premise["tokens"], hypothesis["tokens"]) == (["A", "dog"], ["It", "runs", "."])
    for text in (premise, hypothesis):
        assert sum(text["shares"]) == pytest.approx(1)
    assert can_explain(predictor)
    assert not can_explain(predictor_of("srl"))
