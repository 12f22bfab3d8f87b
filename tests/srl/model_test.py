import itertools

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance

from elmo_tasks.data.tag_schemes import Scheme, TagError, to_spans
from elmo_tasks.srl.metric import SrlEval
from elmo_tasks.srl.model import Iob2Viterbi, SrlModel
from tests.modules.models import read_and_build, tensors, tiny_elmo


def config(tmp_path, placement="none", **elmo):
    """The ELMo config of SRL with small layers and a tiny biLM."""
    settings = tiny_elmo("srl_elmo.jsonnet", tmp_path, placement, **elmo)
    settings["model"] |= {"predicate_dim": 5, "hidden_size": 6, "num_layers": 2, "dropout": 0.0}
    settings["dataset_reader"]["keep_without_predicates"] = True
    return settings


def build(settings):
    """The model, and the instances up to the first sentence without predicates."""
    return read_and_build(settings, "fixtures/srl/dev.conll", 10)


def outputs_of(model, instances):
    return model(**tensors(instances, model.vocab))


def test_elmo_runs_once_a_sentence_and_changes_no_logits(tmp_path, monkeypatch):
    model, instances = build(config(tmp_path, "input+output"))
    encode, rows = model.elmo.bilm.encode, []
    monkeypatch.setattr(
        model.elmo.bilm, "encode", lambda ids, *more: rows.append(len(ids)) or encode(ids, *more)
    )
    outputs = outputs_of(model, instances)
    sentences = {tuple(each["metadata"].metadata.words) for each in instances}
    assert rows == [len(sentences)]
    assert len(sentences) < len(instances)
    monkeypatch.undo()
    for i, instance in enumerate(instances):
        alone = outputs_of(model, [instance])["logits"][0]
        torch.testing.assert_close(outputs["logits"][i, : len(alone)], alone, atol=1e-6, rtol=1e-5)


def test_loss_and_metric_without_the_sentences_that_have_no_predicate(tmp_path):
    model, instances = build(config(tmp_path))
    without = [each["metadata"].metadata.predicate is None for each in instances]
    assert any(without)
    outputs, metrics = outputs_of(model, instances), model.get_metrics(reset=True)
    kept = [instance for instance, none in zip(instances, without, strict=True) if not none]
    assert outputs["loss"].item() == pytest.approx(outputs_of(model, kept)["loss"].item(), rel=1e-5)
    assert metrics == model.get_metrics(reset=True)
    assert [not tags for tags in outputs["best"]] == without


def test_predicates_without_arguments_have_no_scores(tmp_path):
    model, instances = build(config(tmp_path))
    unlabelled = [Instance({**each.fields}) for each in instances[:2]]
    for instance in unlabelled:
        del instance.fields["tags"]
    outputs_of(model, unlabelled)
    with pytest.raises(ConfigurationError, match="arguments"):
        model.get_metrics(reset=True)


def test_the_loss_by_hand(tmp_path):
    """The mean over the words of a proposition, then over the propositions, with and without smoothing."""
    for smoothing in (0.0, 0.1):
        settings = config(tmp_path)
        settings["model"]["label_smoothing"] = smoothing
        model, instances = build(settings)
        outputs = outputs_of(model, instances)
        losses = []
        for logits, instance in zip(outputs["logits"], instances, strict=True):
            if instance["metadata"].metadata.predicate is not None:
                gold = torch.tensor(instance["tags"]._indexed_labels)
                log_probabilities = logits[: len(gold)].log_softmax(dim=1)
                right = log_probabilities[torch.arange(len(gold)), gold]
                losses.append(-((1 - smoothing) * right + smoothing * log_probabilities.mean(dim=1)).mean())
        assert outputs["loss"].item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)


def test_metrics_are_those_of_its_own_tags(tmp_path):
    model, instances = build(config(tmp_path))
    readable = model.make_output_human_readable(outputs_of(model, instances))
    expected = SrlEval()
    for predicates, instance in zip(readable["predicates"], instances, strict=True):
        for proposition in predicates:
            to_spans(proposition["tags"], Scheme.IOB2)
            expected([proposition["tags"]], [instance["metadata"].metadata.gold_tags])
    assert set(model.get_metrics()) == {"precision", "recall", "f1"}
    assert model.get_metrics(reset=True) == expected.get_metric()


def test_what_people_read(tmp_path):
    model, instances = build(config(tmp_path))
    batch = tensors(instances, model.vocab)
    # Let the model be sure of the gold tags.
    sure = 9.0 * torch.nn.functional.one_hot(batch["tags"], len(model.tags)).float()
    mask = model.scores(batch["tokens"], batch["verb_indicator"], batch["metadata"])["mask"]
    outputs = model.decode({"logits": sure, "mask": mask}, batch["metadata"])
    assert "loss" not in outputs
    readable = model.make_output_human_readable(outputs)
    words = ["He", "could", "not", "find", "a", "lamp", "that", "fits", "the", "frame", "."]
    index = readable["tokens"].index(words)
    assert readable["predicates"][index + 1] == [
        {
            "index": 7,
            "predicate": "fits",
            "arguments": [
                {"label": "ARG0", "text": "a lamp", "spans": [[4, 6]]},
                {"label": "R-ARG0", "text": "that", "spans": [[6, 7]]},
                {"label": "V", "text": "fits", "spans": [[7, 8]]},
                {"label": "ARG1", "text": "the frame", "spans": [[8, 10]]},
            ],
            "tags": instances[index + 1]["metadata"].metadata.gold_tags,
            "description": "He could not find [ARG0: a lamp] [R-ARG0: that] [V: fits] [ARG1: the frame] .",
        }
    ]
    propositions = [each for predicates in readable["predicates"] for each in predicates]
    arguments = [argument for each in propositions for argument in each["arguments"]]
    parts = [argument for argument in arguments if len(argument["spans"]) > 1]
    assert parts == [{"label": "ARG1", "text": "The brakes ... need oil", "spans": [[1, 3], [10, 12]]}]
    assert [] in readable["predicates"]


def test_an_ensemble_has_the_mean_probabilities_also_of_members_that_are_far_apart():
    members = [{"logits": torch.tensor([[[0.0, 200.0, -200.0]]])}, {"logits": torch.zeros(1, 1, 3)}]
    (logits,) = SrlModel.average(members[:1] * 2).values()
    torch.testing.assert_close(logits, torch.tensor([[[-200.0, 0.0, -400.0]]]))
    (logits,) = SrlModel.average(members).values()
    torch.testing.assert_close(logits.exp(), torch.tensor([[[1 / 6, 4 / 6, 1 / 6]]]))


TAGS = ["O", "B-A", "I-A", "B-B", "I-C", "B-C"]


def best_by_brute_force(scores):
    paths = itertools.product(range(len(TAGS)), repeat=len(scores))
    return max(filter(possible, paths), key=lambda path: sum(scores[i, tag] for i, tag in enumerate(path)))


def possible(path):
    try:
        to_spans([TAGS[tag] for tag in path], Scheme.IOB2)
    except TagError:
        return False
    return True


def test_by_brute_force():
    scores = torch.randn(40, 4, len(TAGS), generator=torch.Generator().manual_seed(1)).log_softmax(dim=2)
    lengths = torch.arange(40) % 5
    found = Iob2Viterbi(TAGS)(scores, torch.arange(4) < lengths.unsqueeze(1))
    for row, length in enumerate(lengths.tolist()):
        assert tuple(found[row, :length].tolist()) == best_by_brute_force(scores[row, :length])
        assert not found[row, length:].any()


def test_only_iob2_where_all_scores_speak_against_it():
    scores = torch.zeros(1, 3, len(TAGS))
    scores[0, :, TAGS.index("I-A")] = 9.0
    found = Iob2Viterbi(TAGS)(scores, torch.ones(1, 3, dtype=torch.bool))
    assert [TAGS[tag] for tag in found[0]] == ["B-A", "I-A", "I-A"]
