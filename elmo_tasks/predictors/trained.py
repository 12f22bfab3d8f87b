"""Trained models as Python objects: `load` opens an archive, and its results are named tuples."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.machine import Device
from elmo_tasks.compat.archives import TRAINED, open_archive

Result = TypeVar("Result")


class Entity(NamedTuple):
    """An entity, with its characters `[start, end)` in the text."""

    text: str
    type: str
    start: int
    end: int
    probability: float


class Label(NamedTuple):
    """A class, `None` for a text without words, and the probabilities by class."""

    label: str | None
    probabilities: dict[str, float]


class Argument(NamedTuple):
    """An argument of a predicate; the label `V` is the predicate's own."""

    label: str
    text: str


class Predicate(NamedTuple):
    """A predicate: its word, the number of its token from 0, and its arguments."""

    text: str
    token: int
    arguments: list[Argument]


class Answer(NamedTuple):
    """An answer, with its characters `[start, end)` in the passage; the text is empty if there is none."""

    text: str
    start: int | None
    end: int | None
    probability: float | None


def _entities(result: JsonDict) -> list[Entity]:
    keys = ("text", "type", "char_start", "char_end", "probability")
    return [Entity(*(entity[key] for key in keys)) for entity in result["entities"]]


def _label(result: JsonDict) -> Label:
    return Label(result["label"], result["probabilities"])


def _predicates(result: JsonDict) -> list[Predicate]:
    return [
        Predicate(
            predicate["predicate"],
            predicate["index"],
            [Argument(argument["label"], argument["text"]) for argument in predicate["arguments"]],
        )
        for predicate in result["predicates"]
    ]


def _clusters(result: JsonDict) -> list[list[str]]:
    tokens = result["tokens"]
    return [[" ".join(tokens[first : last + 1]) for first, last in cluster] for cluster in result["clusters"]]


def _answer(result: JsonDict) -> Answer:
    return Answer(*(result[key] for key in ("answer", "char_start", "char_end", "probability")))


_RESULTS: dict[str, Callable[[JsonDict], Any]] = {
    "elmo_ner": _entities,
    "elmo_classifier": _label,
    "elmo_sst": _label,
    "elmo_snli": _label,
    "elmo_srl": _predicates,
    "elmo_coref": _clusters,
    "elmo_squad": _answer,
}
"""Functions that make a result of a prediction, by the name of the predictor."""


class TrainedModel(Generic[Result]):
    """A model that predicts from Python, by a predictor of this project."""

    def __init__(self, predictor: Predictor) -> None:
        name = next((name for name in _RESULTS if isinstance(predictor, Predictor.by_name(name))), None)
        if name is None:
            expected = "one of a task of the paper, or a classifier"
            raise ConfigurationError(f"found the predictor {type(predictor).__name__}, expected {expected}")
        self.predictor: Any = predictor
        self._result: Callable[[JsonDict], Result] = _RESULTS[name]

    def __call__(self, *texts: str) -> Result:
        """
        Predicts one example: a text, or the two texts that the task reads, such as passage and question.

        # Raises
        `ConfigurationError`: another number of texts than the task reads.
        """
        return self.predict_batch([texts])[0]

    predict = __call__

    def predict_batch(self, examples: Iterable[str | tuple[str, ...]]) -> list[Result]:
        """Predicts examples together, which is faster; those of two texts are tuples."""
        names = list(self.predictor.forms[0])
        inputs = []
        for example in examples:
            texts = (example,) if isinstance(example, str) else example
            if len(texts) != len(names):
                raise ConfigurationError(
                    f"found {len(texts)} texts, expected {len(names)}: {', '.join(names)}"
                )
            inputs.append(dict(zip(names, texts, strict=True)))
        return list(map(self._result, self.predictor.predict_batch_json(inputs) if inputs else []))


@overload
def load(name: Literal["ner", "predicates"], *, device: Device = -1) -> TrainedModel[list[Entity]]: ...
@overload
def load(name: Literal["sst", "snli", "topics"], *, device: Device = -1) -> TrainedModel[Label]: ...
@overload
def load(name: Literal["srl"], *, device: Device = -1) -> TrainedModel[list[Predicate]]: ...
@overload
def load(name: Literal["coref"], *, device: Device = -1) -> TrainedModel[list[list[str]]]: ...
@overload
def load(name: Literal["squad"], *, device: Device = -1) -> TrainedModel[Answer]: ...
@overload
def load(name: FilePath, *, device: Device = -1) -> TrainedModel[Any]: ...
def load(name: FilePath, *, device: Device = -1) -> TrainedModel[Any]:
    """
    Opens a model that comes with the project by its name, or any archive of ours by its path or URL.

    # Raises
    `ConfigurationError`: no archive has this name, or see `open_archive`.
    """
    ours = str(name).isidentifier() and not Path(name).exists()
    archive = open_archive(f"{TRAINED}{name}" if ours else name, device)
    return TrainedModel(Predictor.from_archive(archive))
