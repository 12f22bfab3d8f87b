import numpy as np
import pytest
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
