"""
Calibrates archives, so that their probabilities say how often they are right: by a temperature (Guo et al.
2017), and `squad` by logistic models.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from allennlp.common.util import lazy_groups_of
from allennlp.data import Batch, Instance
from sklearn.linear_model import LogisticRegression

from elmo_tasks.archives import open_archive
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.data.tag_schemes import Scheme, to_spans
from elmo_tasks.elmo.token_embedder import ARCHIVED_WEIGHTS
from elmo_tasks.pipeline.trained import task_predictor
from elmo_tasks.squad.metric import exact_match, normalize
from elmo_tasks.squad.probabilities import span_features

Guess = tuple[float, bool]
"""The probability of an answer, and whether it is right."""
BINS = 15
TEMPERATURES = np.arange(0.5, 3.01, 0.05).round(2).tolist()
FITTED = 500
"""The largest number of instances on which a temperature is chosen."""


def entity_guesses(instance: Instance, result: dict[str, Any]) -> Iterator[Guess]:
    gold = {tuple(span) for span in to_spans(instance["metadata"].metadata.gold_tags, Scheme.IOB2)}
    for entity in result["entities"]:
        yield entity["probability"], (entity["token_start"], entity["token_end"], entity["type"]) in gold


def label_guesses(instance: Instance, result: dict[str, Any]) -> Iterator[Guess]:
    yield result["probabilities"][result["label"]], result["label"] == instance["label"].label


class Calibration(NamedTuple):
    """How the probabilities of a model are compared with its answers."""

    guesses: Callable[[Instance, dict[str, Any]], Iterator[Guess]]
    last_layers: tuple[str, ...]
    """Prefixes of the parameters that make the scores. Divided by a number, they change no answer."""


CALIBRATIONS = {
    "ner": Calibration(entity_guesses, ("tag_projection.", "crf.")),
    "predicates": Calibration(entity_guesses, ("tag_projection.", "crf.")),
    "snli": Calibration(label_guesses, ("output.",)),
    "sentiment": Calibration(label_guesses, ("output.",)),
    "sst": Calibration(label_guesses, ("classifier.4.",)),
    "topics": Calibration(label_guesses, ("output.",)),
}


def calibration_error(guesses: list[Guess]) -> float:
    """Returns the expected calibration error: the mean distance of probability and accuracy, by bins."""
    probabilities, right = np.array(guesses, dtype=float).T
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    sums = [abs((probabilities - right)[bins == index].sum()) for index in range(BINS)]
    return float(sum(sums) / len(guesses))


def best_temperature(name: str, archive: Path, data: list[str]) -> tuple[float, float, float]:
    """
    Returns the temperature with the lowest log loss of whether an answer is right, on at most `FITTED`
    instances of the data, and the calibration errors on all of them before and after it.
    """
    calibration = CALIBRATIONS[name]
    predictor = task_predictor(open_archive(archive))
    model, reader = predictor._model, predictor._dataset_reader
    instances = [instance for path in data for instance in reader.read(path)]
    layers = [part for key, part in model.named_parameters() if key.startswith(calibration.last_layers)]
    some = instances[:: -(-len(instances) // FITTED)]
    originals = [part.detach().clone() for part in layers]

    def guesses(temperature: float, instances: list[Instance]) -> list[Guess]:
        with torch.no_grad():
            for part, original in zip(layers, originals, strict=True):
                part.copy_(original / temperature)
        return [
            guess
            for group in lazy_groups_of(instances, 64)
            for instance, result in zip(group, model.forward_on_instances(group), strict=True)
            for guess in calibration.guesses(instance, result)
        ]

    def loss(temperature: float) -> float:
        probabilities, right = np.array(guesses(temperature, some), dtype=float).T
        of_answer = np.where(right > 0, probabilities, 1 - probabilities)
        return float(-np.log(of_answer.clip(1e-9)).mean())

    # The loss has one minimum: first every fifth temperature, then all around the best
    coarse = min(TEMPERATURES[::5], key=loss)
    best = min((value for value in TEMPERATURES if abs(value - coarse) < 0.25), key=loss)
    return best, *(calibration_error(guesses(value, instances)) for value in (1.0, best))


def calibrate(name: str, archive: Path, folder: Path, data: list[str]) -> None:
    """
    Calibrates an archive on data, and prints the errors before and after. The last layers are divided in
    its unpacked `folder` alone.
    """
    temperature, before, after = best_temperature(name, archive, data)
    weights = folder / ARCHIVED_WEIGHTS
    state = torch.load(weights, weights_only=True)
    for key, part in state.items():
        if key.startswith(CALIBRATIONS[name].last_layers) and part.is_floating_point():
            state[key] = (part.double() / temperature).to(part.dtype)
    torch.save(state, weights)
    print(f"{name}: temperature {temperature}, expected calibration error {before:.3f}, then {after:.3f}")


class Asked(NamedTuple):
    """A question to a passage, whose answers are elsewhere in the article if it does not tell."""

    article: int
    passage: str
    question: str
    answers: list[str]
    tells: bool


def asked(data: list[str]) -> Iterator[Asked]:
    """
    Yields the questions of SQuAD's JSON, to their own passage and to the next one of the article that has
    none of the answers.
    """
    texts = ("\n".join(line for _, line in read_lines(path)) for path in data)
    articles = [article for text in texts for article in json.loads(text)["data"]]
    for number, article in enumerate(articles):
        passages = [paragraph["context"] for paragraph in article["paragraphs"]]
        for index, paragraph in enumerate(article["paragraphs"]):
            for each in paragraph["qas"]:
                answers = [answer["text"] for answer in each["answers"]]
                yield Asked(number, passages[index], each["question"], answers, True)
                for other in passages[index + 1 :] + passages[:index]:
                    if not any(f" {normalize(text)} " in f" {normalize(other)} " for text in answers):
                        yield Asked(number, other, each["question"], answers, False)
                        break


FITTED_SPANS = 2
"""The best spans of a question on which the probability of a span is fitted."""


def calibrate_answers(archive: Path, folder: Path, data: list[str]) -> None:
    """
    Fits the probabilities of the archive `squad`, see `AnswerProbabilities`, and adds their weights to its
    unpacked `folder`. Prints the calibration error of answers before, and when the weights are fitted on one
    half of the articles for the other; and the shares of questions that then stay without an answer.
    """
    questions = sorted(asked(data))
    features, right = _features(archive, questions)
    # (questions,)
    tells = np.array([each.tells for each in questions])
    half = np.array([each.article % 2 for each in questions])
    # (questions, 2)
    odds = np.empty((len(questions), 2))
    for test in (0, 1):
        train = half != test
        odds[~train] = features[~train, 0] @ fitted_weights(features[train], right[train], tells[train]).T
    probability, answerable = (1 / (1 + np.exp(-odds))).T
    best = right[:, 0]
    before, after = (
        calibration_error(list(zip(values[tells], best[tells], strict=True)))
        for values in (np.exp(features[:, 0, 0]), probability)
    )
    print(f"squad: expected calibration error {before:.3f}, then {after:.3f}")
    for bound in (0.25, 0.5):
        below = probability * answerable < bound
        shares = f"{below[best].mean():.1%} of the right answers, {below[~tells].mean():.1%} of the answers"
        print(f"below {bound}: {shares} to questions that the passage does not answer")
    weights = torch.from_numpy(fitted_weights(features, right, tells)).float()
    file = folder / ARCHIVED_WEIGHTS
    torch.save(torch.load(file, weights_only=True) | {"probabilities.weights": weights}, file)


def _features(archive: Path, questions: list[Asked]) -> tuple[np.ndarray, np.ndarray]:
    """
    Returns the features of the best spans of each question, and which of them are right.

    *Shape:* `(questions, spans, features)`, `(questions, spans)`.
    """
    predictor = task_predictor(open_archive(archive))
    model, reader = predictor._model, predictor._dataset_reader
    features, right = [], []
    for group in lazy_groups_of(questions, 24):
        batch = Batch([reader.text_to_instance(each.question, each.passage) for each in group])
        for instance in batch:
            reader.apply_token_indexers(instance)
        batch.index_instances(model.vocab)
        with torch.no_grad():
            outputs = model(**batch.as_tensor_dict())
        inputs = [outputs[name] for name in ("best", "indices", "evidence", "metadata")]
        features.append(span_features(*inputs)[:, :FITTED_SPANS].double().numpy())
        for each, result in zip(group, model.results(outputs), strict=True):
            gold = each.answers if each.tells else []
            spans = result.n_best[:FITTED_SPANS]
            right.append([any(exact_match(span.text, text) for text in gold) for span in spans])
    return np.concatenate(features), np.array(right)


def fitted_weights(features: np.ndarray, right: np.ndarray, tells: np.ndarray) -> np.ndarray:
    """
    Returns the weights of `AnswerProbabilities` for features, and whether spans are right and passages tell.

    *Shape:* `(questions, spans, features)`, `(questions, spans)`, `(questions,)`, to `(2, features)`.
    """

    def fitted(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        model = LogisticRegression(C=100, fit_intercept=False, solver="newton-cholesky")
        return model.fit(inputs.reshape(-1, inputs.shape[-1]), labels.ravel()).coef_[0]

    return np.stack([fitted(features[tells], right[tells]), fitted(features[:, 0], tells)])
