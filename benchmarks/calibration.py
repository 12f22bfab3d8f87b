"""Temperatures with which an archive's probabilities say how often it is right (Guo et al. 2017)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from allennlp.common.util import lazy_groups_of
from allennlp.data import Instance

from elmo_tasks.archives import open_archive
from elmo_tasks.data.tag_schemes import Scheme, to_spans
from elmo_tasks.elmo.token_embedder import ARCHIVED_WEIGHTS
from elmo_tasks.pipeline.trained import task_predictor
from elmo_tasks.squad.metric import exact_match

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


def answer_guesses(instance: Instance, result: dict[str, Any]) -> Iterator[Guess]:
    gold = instance["metadata"].metadata.answers
    yield result["probability"], any(exact_match(result["answer"], each) for each in gold)


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
    "squad": Calibration(answer_guesses, ("start.", "end.")),
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
