import math

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.modules.elmo_model import EnsembleModel
from elmo_tasks.squad.metric import SquadMetric
from elmo_tasks.squad.model import SquadModel
from tests.squad.archives import DEV, UNANSWERABLE, batch, build, config

INPUTS = ("passage", "question", "metadata")


def scores_of(model, instances):
    fields = batch(model, instances)
    with torch.no_grad():
        return model.scores(**{name: fields[name] for name in INPUTS})


def outputs_of(layer) -> list[torch.Tensor]:
    """The list of a layer's outputs from now on."""
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(lambda _, __, output: seen.append(output))
    return seen


def test_a_passage_is_read_once_for_its_questions(monkeypatch):
    model, instances = build(config())
    read_by_elmo, encode = [], model.elmo.bilm.encode
    monkeypatch.setattr(
        model.elmo.bilm, "encode", lambda ids, start: read_by_elmo.append(ids) or encode(ids, start)
    )
    read, characters = outputs_of(model.encoder), outputs_of(model.text_field_embedder)
    scores_of(model, [instances[index] for index in (0, 9, 1, 2, 8, 5)])
    for passages, questions in (read_by_elmo, read, characters):
        assert (len(passages), len(questions)) == (3, 6)


@pytest.mark.parametrize("no_answer", [False, True])
@pytest.mark.parametrize("window", [400, 30])
def test_a_question_has_one_result_in_any_batch(window, no_answer):
    data = UNANSWERABLE if no_answer else DEV
    model, instances = build(config(window=window, overlap=12, no_answer=no_answer), data)
    chosen = [instances[index] for index in (7, 0, 12, 2)]
    together = scores_of(model, chosen)
    for row, instance in enumerate(chosen):
        alone = scores_of(model, [instance])
        tokens, words = len(instance["passage"]), len(instance["question"])
        in_batch = {name: together[name][row, :tokens] for name in ("start", "end", "spans", "window_start")}
        in_batch["question_attention"] = together["question_attention"][row, :tokens, :words]
        in_batch |= {"no_answer": together["no_answer"][row]} if no_answer else {}
        for name, scores in in_batch.items():
            torch.testing.assert_close(scores, alone[name][0], rtol=1e-5, atol=1e-5)
        assert all((together[name][row, tokens:] == -torch.inf).all() for name in ("start", "end", "spans"))


@pytest.mark.parametrize("no_answer", [False, True])
def test_loss_by_hand(no_answer):
    """Clark and Gardner 2017, section 3.3: the score of no answer is among those of all spans."""
    model, instances = build(config(no_answer=no_answer), UNANSWERABLE if no_answer else DEV)
    layers = [model.start, model.end, *([model.no_answer] if no_answer else [])]
    raw = [outputs_of(layer) for layer in layers]
    outputs = model(**batch(model, instances))
    losses = []
    for row, instance in enumerate(instances):
        tokens = len(instance["passage"])
        start, end = (seen[0][row, :tokens, 0].detach().numpy().astype(float) for seen in raw[:2])
        none = raw[2][0][row].item() if no_answer else -math.inf
        total = math.log(math.exp(none) + np.exp(start[:, None] + end[None, :]).sum())
        first, last = (instance[name].sequence_index for name in ("span_start", "span_end"))
        losses.append(total - (start[first] + end[last] if first >= 0 else none))
        if no_answer:
            assert outputs["no_answer"][row].item() == pytest.approx(none - total, rel=1e-4)
    assert outputs["loss"].item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_questions_without_a_span_do_not_train():
    model, instances = build(config())
    expected = model(**batch(model, instances[:3]))["loss"].item()
    fields = batch(model, instances[:5])
    for name in ("span_start", "span_end"):
        fields[name][3:] = -100
    assert model(**fields)["loss"].item() == pytest.approx(expected, rel=1e-5)
    for name in ("span_start", "span_end"):
        fields[name][:] = -100
    loss = model.train()(**fields)["loss"]
    assert loss.item() == 0
    loss.backward()


def test_answers_and_metrics():
    model, instances = build(config(longest_answer=4))
    outputs = model(**batch(model, instances))
    readable = model.make_output_human_readable(outputs)
    expected = SquadMetric()
    for row, instance in enumerate(instances):
        question = instance["metadata"].metadata
        n_best = readable["n_best"][row]
        assert len(n_best) == 20
        assert [answer["probability"] for answer in n_best] == sorted(
            (answer["probability"] for answer in n_best), reverse=True
        )
        for answer in n_best:
            span = slice(answer["token_start"], answer["token_end"])
            start, end = answer["char_start"], answer["char_end"]
            assert answer["text"] == question.passage.text[start:end]
            assert 1 <= len(question.passage.words[span]) <= 4
            assert answer["text"].replace(" ", "") == "".join(question.passage.words[span])
            first, last = answer["token_start"], answer["token_end"] - 1
            probability = (outputs["start"][row, first] + outputs["end"][row, last]).exp().item()
            assert answer["probability"] == pytest.approx(probability, rel=1e-4)
        assert readable["answer"][row] == n_best[0]["text"]
        assert readable["char_start"][row] == n_best[0]["char_start"]
        expected(n_best[0]["text"], question.answers)
    assert readable["id"] == [instance["metadata"].metadata.id for instance in instances]
    assert model.get_metrics(reset=True) == expected.get_metric()


def test_no_answer_is_one_of_the_answers():
    model, instances = build(config(no_answer=True), UNANSWERABLE)
    with torch.no_grad():
        for bias, empty in ((-30.0, False), (30.0, True)):
            model.get_metrics(reset=True)
            model.no_answer.output.bias.fill_(bias)
            readable = model.make_output_human_readable(model(**batch(model, instances)))
            for answer, n_best in zip(readable["answer"], readable["n_best"], strict=True):
                assert (answer == "") == empty
                texts = [each["text"] for each in n_best]
                assert texts.index("") == (0 if empty else len(texts) - 1)
                assert n_best[texts.index("")]["char_start"] is None
    metrics = model.get_metrics(reset=True)
    assert metrics["f1-NoAns"] == metrics["exact_match-NoAns"] == 1
    assert metrics["f1-HasAns"] == metrics["exact_match-HasAns"] == 0
    assert metrics["f1"] == 6 / 14


def test_an_ensemble_averages_probabilities():
    built = [build(config(no_answer=True), UNANSWERABLE, seed) for seed in (0, 1)]
    models, instances = [model for model, _ in built], built[0][1]
    each = [scores_of(model, instances) for model in models]
    mean = SquadModel.average(each)
    for name in ("start", "end", "spans", "no_answer"):
        expected = (each[0][name].exp() + each[1][name].exp()) / 2
        torch.testing.assert_close(mean[name].exp(), expected)
    torch.testing.assert_close(
        mean["self_attention"], (each[0]["self_attention"] + each[1]["self_attention"]) / 2
    )
    fields = batch(models[0], instances)
    twice = EnsembleModel(vocab=models[0].vocab, members=[models[0], models[0]]).eval()
    torch.testing.assert_close(twice(**fields)["best"], models[0](**fields)["best"])
    both = EnsembleModel(vocab=models[0].vocab, members=models).eval()(**fields)
    torch.testing.assert_close(both["best"], models[0].decode(mean, fields["metadata"])["best"])


def test_members_that_differ():
    models = [build(config(window=30, overlap=overlap))[0] for overlap in (10, 12)]
    instances = build(config())[1]
    with pytest.raises(ConfigurationError, match="window_start"):
        SquadModel.average([scores_of(model, instances) for model in models])


def test_unanswerable_questions_need_a_model_with_no_answer():
    answering, _ = build(config())
    settings = config(no_answer=False)
    settings["dataset_reader"]["unanswerable"] = True
    _, instances = build(settings, UNANSWERABLE)
    with pytest.raises(ConfigurationError, match="no_answer:"):
        answering(**batch(answering, instances))
