import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.tag_schemes import Scheme, convert
from elmo_tasks.ner.metric import ConllEval
from tests.modules.models import read_and_build, tensors, tiny_elmo


def config(tmp_path, placement, **elmo):
    """The ELMo config of NER with small layers and a tiny biLM."""
    settings = tiny_elmo("ner_elmo.jsonnet", tmp_path, placement, **elmo)
    settings["model"] |= {"hidden_sizes": [6, 4], "dropout": 0.0}
    return settings


def build(settings):
    model, instances = read_and_build(settings, "fixtures/ner/dev.conll", 8)
    return model, tensors(instances, model.vocab), instances


def test_loss_is_the_mean_over_sentences(tmp_path):
    model, batch, instances = build(config(tmp_path, "input"))
    alone = [model(**tensors([instance], model.vocab))["loss"].item() for instance in instances]
    assert model(**batch)["loss"].item() == pytest.approx(sum(alone) / len(alone), rel=1e-4)


def test_metrics_are_those_of_its_own_tags(tmp_path):
    model, batch, instances = build(config(tmp_path, "input"))
    outputs = model(**batch)
    predicted = model.make_output_human_readable(outputs)["tags"]
    expected = ConllEval()
    expected(predicted, [instance["metadata"].metadata.gold_tags for instance in instances])
    assert model.get_metrics(reset=True) == expected.get_metric()
    assert set(model.get_metrics()) == {"precision", "recall", "f1", "accuracy"}


def test_no_metrics_of_sentences_without_tags(tmp_path):
    model, batch, _ = build(config(tmp_path, "none"))
    model(tokens=batch["tokens"], metadata=batch["metadata"])
    assert set(model.get_metrics()) == {"precision", "recall", "f1", "accuracy"}
    with pytest.raises(ConfigurationError, match="no tags"):
        model.get_metrics(reset=True)


def test_entities(tmp_path):
    model, batch, instances = build(config(tmp_path, "input"))
    # Let the model be sure of the gold tags.
    emissions = 9.0 * torch.nn.functional.one_hot(batch["tags"], len(model.tags)).float()
    mask = batch["tokens"]["tokens"]["tokens"] != 0
    outputs = model.decode(model.crf(emissions, mask)._asdict(), batch["metadata"])
    assert torch.equal(outputs["tags"], batch["tags"] * mask)
    readable = model.make_output_human_readable(outputs)
    for i, instance in enumerate(instances):
        sentence = instance["metadata"].metadata
        assert readable["tags"][i] == sentence.gold_tags
        assert convert(readable["tags"][i], Scheme.IOB2, Scheme.BIOUL) == list(instance["tags"].labels)
        for entity in readable["entities"][i]:
            words = sentence.words[entity["token_start"] : entity["token_end"]]
            assert entity["text"] == " ".join(words)
            assert entity["text"] == sentence.text[entity["char_start"] : entity["char_end"]]
            assert 0.9 < entity["probability"] <= 1.0
    total = sum(map(len, readable["entities"]))
    assert total == sum(t.startswith("B-") for s in batch["metadata"] for t in s.gold_tags)
