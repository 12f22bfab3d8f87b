import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from elmo_tasks.classification.model import ClassificationModel
from elmo_tasks.common.files import bundled
from tests.elmo.files import make_block
from tests.modules.models import build, check_alone, indexed, tensors
from tests.modules.numpy_reference import array, bilstm, linear, softmax

TEXTS = [
    ("Shares fell .", "The shares of the old bank fell after the report on jobs .", "paraphrase"),
    ("A worm slows the mail servers of many offices , and the telephones too .", "Rain", "different"),
    ("Rain", "Sun", "different"),
]


def settings(tmp_path, *, pairs, pooling="max", placement="input+output", hidden_sizes=(5,)):
    config = Params.from_file(str(bundled("training_configs/mrpc.jsonnet"))).as_dict()
    reader, model = config["dataset_reader"], config["model"]
    reader["tokenizer"] = "whitespace"
    reader["token_indexers"]["elmo"] = {"type": "elmo_character_ids"}
    if not pairs:
        del reader["sentence2"]
    model |= {"pairs": pairs, "pooling": pooling, "hidden_sizes": list(hidden_sizes), "dropout": 0.0}
    model["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"] = 8
    model["elmo"] = {"placement": placement, **make_block(tmp_path)}
    return config


def build_texts(config):
    """The model, and the instances of the texts."""
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    texts = ((first, second if reader.pairs else None, label) for first, second, label in TEXTS)
    instances = indexed(reader, (reader.text_to_instance(*text) for text in texts))
    model = build(config, instances)
    assert isinstance(model, ClassificationModel)
    return model, instances


def last(vectors):
    """Where the forward half ends, and the backward one."""
    middle = vectors.shape[1] // 2
    return np.concatenate([vectors[-1, :middle], vectors[0, middle:]])


POOLING = {
    "max": lambda vectors: vectors.max(axis=0),
    "mean": lambda vectors: vectors.mean(axis=0),
    "last": last,
}


def sentence(model, indexed, pooling):
    """One sentence, from the indices of its tokens."""
    words = model.text_field_embedder.token_embedder_tokens.weight[indexed["tokens"]["tokens"][0]]
    at_input, at_output = (array(vectors[0]) for vectors in model.elmo(indexed["elmo"]["character_ids"]))
    tokens = np.concatenate([array(words), at_input], axis=1)
    encoded = tokens if model.encoder is None else bilstm(model.encoder, tokens)
    return np.concatenate([POOLING[pooling](encoded), POOLING[pooling](at_output)])


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(
    ("pooling", "hidden_sizes"), [("max", [5]), ("mean", [5]), ("last", [5]), ("mean", [])]
)
def test_equals_numpy_alone_and_in_a_batch(tmp_path, pairs, pooling, hidden_sizes):
    model, instances = build_texts(
        settings(tmp_path, pairs=pairs, pooling=pooling, hidden_sizes=hidden_sizes)
    )
    outputs = check_alone(model, instances)
    readable = model.make_output_human_readable(outputs)
    losses = []
    for row, instance in enumerate(instances):
        alone = tensors([instance], model.vocab)
        features = sentence(model, alone["sentence1"], pooling)
        if pairs:
            other = sentence(model, alone["sentence2"], pooling)
            features = np.concatenate([features, other, np.abs(features - other), features * other])
        logits = linear(model.output, features)
        np.testing.assert_allclose(outputs["logits"][row], logits, atol=1e-5)
        probabilities = softmax(logits)
        assert readable["label"][row] == ("different", "paraphrase")[logits.argmax()]
        assert list(readable["probabilities"][row].values()) == pytest.approx(probabilities, abs=1e-5)
        losses.append(-np.log(probabilities[alone["label"][0]]))
    assert outputs["loss"].item() == pytest.approx(np.mean(losses), abs=1e-5)
    assert readable["sentence1_tokens"][2] == ["Rain"]
    assert pairs == ("sentence2_tokens" in readable)


def test_pairs_and_single_sentences_are_not_mixed_up(tmp_path):
    model, _ = build_texts(settings(tmp_path, pairs=True))
    _, single = build_texts(settings(tmp_path, pairs=False))
    with pytest.raises(ConfigurationError, match="pairs"):
        model(**tensors(single, model.vocab))


@pytest.mark.parametrize(("pooling", "hidden_sizes"), [("min", [5]), ("last", [])])
def test_impossible_pooling(tmp_path, pooling, hidden_sizes):
    with pytest.raises(ConfigurationError, match="pooling"):
        build_texts(settings(tmp_path, pairs=False, pooling=pooling, hidden_sizes=hidden_sizes))


def test_several_labels(tmp_path):
    config = settings(tmp_path, pairs=False)
    config["dataset_reader"] |= {
        "several_labels": True,
        "classes": ["old", "new", "sad"],
        "label_names": None,
    }
    config["model"]["several_labels"] = True
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    gold = [["new", "old"], [], ["sad"]]
    texts = [first for first, _, _ in TEXTS]
    instances = indexed(
        reader, (reader.text_to_instance(*pair) for pair in zip(texts, [None] * 3, gold, strict=True))
    )
    model = build(config, instances)
    model.thresholds.copy_(torch.tensor([0.0, 0.5, 1.0]))
    outputs = model(**tensors(instances, model.vocab))
    probabilities = 1 / (1 + np.exp(-array(outputs["logits"])))
    expected = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    losses = np.log(np.where(expected == 1, probabilities, 1 - probabilities))
    assert outputs["loss"].item() == pytest.approx(-losses.mean(), rel=1e-5)
    for result, row in zip(model.results(outputs), probabilities, strict=True):
        assert list(result.probabilities.values()) == pytest.approx(row.tolist(), rel=1e-5)
        assert result.labels == ["old", "new"][: 1 + (row[1] >= 0.5)]
        assert result.above(0.99).labels == []
        assert set(result.to_json()) == {"sentence1_tokens", "labels", "probabilities"}
    chosen = np.stack([np.ones(3), probabilities[:, 1] >= 0.5, np.zeros(3)], axis=1)
    assert model.get_metrics(reset=True)["accuracy"] == (chosen == expected).all(axis=1).mean()
    mean = model.average([{"logits": outputs["logits"]}, {"logits": -outputs["logits"]}])["logits"]
    assert array(mean) == pytest.approx(0, abs=1e-5)
    one_label = {**tensors(instances, model.vocab), "label": torch.zeros(3, dtype=torch.long)}
    with pytest.raises(ConfigurationError, match=r"one label, but .*several_labels: true"):
        model(**one_label)
