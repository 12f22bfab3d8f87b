from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_tasks.modules.static_vectors import StaticVectors
from elmo_tasks.pipeline.trained import TrainedModel
from elmo_tasks.vectors.files import VectorTable, write_vectors
from tests.modules.models import build, check_gradients, indexed, tensors, tiny_elmo
from tests.modules.numpy_reference import array, linear, relu, softmax
from tests.pipeline.archives import predictor_of

TEXTS = ["Dogs run.", "", "Some animals are running through a wide and open field.", "No"] * 5
RECORDS = [
    ("opinions", "Dull .", None, "bad"),
    ("inference", "Dogs run .", "Animals are running through a wide field .", "entailment"),
    ("neighbours", "Rain fell for three long days .", "The river rose .", None),
    ("opinions", "A warm and clever film .", None, "good"),
    ("neighbours", "They met .", "They talked about the old bridge .", None),
    ("inference", "Rain", "Sun", "contradiction"),
    ("neighbours", "It broke .", "We took it back to the shop .", None),
]
"""Tasks, sentences and labels of one batch."""


def build_tasks(tmp_path):
    config = tiny_elmo("sentence_elmo.jsonnet", tmp_path, "input+output")
    config["model"] |= {"size": 9, "head_size": 4, "dropout": 0.0}
    config["model"]["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"] = 7
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    instances = (
        reader.text_to_instance(first.split(), second and second.split(), task=task, label=label)
        for task, first, second, label in RECORDS
    )
    instances = indexed(reader, instances)
    return build(config, instances), instances


def vector(model, text):
    words = array(model.text_field_embedder.token_embedder_tokens.weight[text["tokens"]["tokens"][0]])
    at_input, at_output = (array(part[0]) for part in model.elmo(text["elmo"]["character_ids"]))
    encoded = relu(linear(model.projection, np.concatenate([words, at_input, at_output], axis=1)))
    return encoded.max(axis=0)


def test_equals_numpy_one_by_one(tmp_path):
    model, instances = build_tasks(tmp_path)
    with torch.no_grad():
        outputs = model(**tensors(instances, model.vocab))
    losses, right, pairs = [], [], []
    for row, (instance, (task, _, second, label)) in enumerate(zip(instances, RECORDS, strict=True)):
        alone = tensors([instance], model.vocab)
        u = vector(model, alone["sentence1"])
        opinions = linear(model.heads["opinions_labels"][1], u)
        result = model.results(outputs)[row]
        np.testing.assert_allclose(result.vector, u, atol=1e-5)
        np.testing.assert_allclose(result.scores, opinions, atol=1e-5)
        v = second and vector(model, alone["sentence2"])
        if label is None:
            pairs.append((u / np.linalg.norm(u), v / np.linalg.norm(v)))
            continue
        if second:
            _, hidden, _, _, output = model.heads["inference_pair_labels"]
            logits = linear(output, relu(linear(hidden, np.concatenate([u, v, abs(u - v), u * v]))))
        else:
            logits = opinions
        gold = alone["label"][0]
        losses.append(-np.log(softmax(logits[None])[0][gold]))
        right.append((task, logits.argmax() == gold))
    cosines = np.array([[u @ v for _, v in pairs] for u, _ in pairs])
    for side in (cosines, cosines.T):
        losses += list(-np.log(np.diag(softmax(side / 0.05))) / 2)
    right += [("neighbours", row.argmax() == number) for number, row in enumerate(cosines)]
    assert outputs["loss"].item() == pytest.approx(sum(losses) / len(RECORDS), rel=1e-4)
    metrics = model.get_metrics(reset=True)
    tasks = ("inference", "neighbours", "opinions")
    expected = [np.mean([value for name, value in right if name == task]) for task in tasks]
    assert [metrics[f"accuracy-{task}"] for task in tasks] == pytest.approx(expected)
    assert metrics["accuracy"] == pytest.approx(np.mean(expected))


def test_static_vectors_are_a_part_of_the_vector(tmp_path):
    model, instances = build_tasks(tmp_path)
    write_vectors(tmp_path / "static.txt", VectorTable(["film", "a"], np.eye(2, 5, dtype=np.float32)))
    model.static_vectors = StaticVectors(str(tmp_path / "static.txt"))
    with torch.no_grad():
        outputs = model(**tensors(instances, model.vocab))
    for (_, sentence, _, _), result in zip(RECORDS, model.results(outputs), strict=True):
        of_layer, static = np.split(result.vector, [9])
        if "film" in sentence:  # "A warm and clever film ."
            expected = np.array([1 / 101, 2 / 102, 0, 0, 0])
            expected *= 0.8 * np.linalg.norm(of_layer) / np.linalg.norm(expected)
            np.testing.assert_allclose(static, expected, rtol=1e-4)
        else:
            assert not static.any()
    assert model.empty_result().vector.shape == (14,)


def test_every_head_learns(tmp_path):
    model, instances = build_tasks(tmp_path)
    check_gradients(model, tensors(instances, model.vocab))
    assert sorted(model.heads) == ["inference_pair_labels", "opinions_labels"]


def test_vectors_alone_in_a_batch_and_in_eight_threads():
    model = TrainedModel(predictor_of("sentence"))
    together = model.predict_batch(TEXTS)
    for text, result in zip(TEXTS, together, strict=True):
        alone = model(text)
        assert alone.tokens == result.tokens
        assert (alone.vector.shape, alone.vector.dtype) == ((16,), np.float32)
        assert (alone.scores.shape, alone.scores.dtype) == ((2,), np.float32)
        np.testing.assert_allclose(alone.vector, result.vector, atol=1e-6)
        np.testing.assert_allclose(alone.scores, result.scores, atol=1e-6)
    assert not together[1].vector.any()
    assert not together[1].scores.any()
    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(model.predict_batch, [TEXTS] * 16):
            for found, expected in zip(results, together, strict=True):
                np.testing.assert_array_equal(found.vector, expected.vector)
