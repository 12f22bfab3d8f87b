"""Trained models as Python objects: `load` opens an archive, and its results are named tuples."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import CONFIG_NAME
from allennlp.predictors import Predictor

from elmo_tasks.archives.opening import open_archive
from elmo_tasks.archives.slim import TRAINED, trained_archives
from elmo_tasks.common.devices import Device
from elmo_tasks.common.errors import FilePath
from elmo_tasks.data.input_files import shorten
from elmo_tasks.predictors.json_lines import LocatedInput

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
    """
    An argument of a predicate, with the characters `[start, end)` of its parts in the text; most have one.
    The label `V` is the predicate's own.
    """

    label: str
    text: str
    spans: list[tuple[int, int]]


class Predicate(NamedTuple):
    """A predicate, its arguments, and its characters `[start, end)` in the text."""

    text: str
    arguments: list[Argument]
    start: int
    end: int


class Mention(NamedTuple):
    """A mention of a cluster, with its characters `[start, end)` in the text."""

    text: str
    start: int
    end: int


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
            [
                Argument(argument["label"], argument["text"], list(map(tuple, argument["char_spans"])))
                for argument in predicate["arguments"]
            ],
            predicate["char_start"],
            predicate["char_end"],
        )
        for predicate in result["predicates"]
    ]


def _clusters(result: JsonDict) -> list[list[Mention]]:
    keys = ("text", "char_start", "char_end")
    return [[Mention(*(mention[key] for key in keys)) for mention in each] for each in result["mentions"]]


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
        self._name = name
        self._result: Callable[[JsonDict], Result] = _RESULTS[name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}({', '.join(self._names)})>"

    def __call__(self, *texts: str, **fields: Any) -> Result:
        """
        Predicts one example: the texts that the task reads, such as passage and question, in this order; or
        fields of `allennlp predict` by their names, such as `tokens`, in place of texts or beside them.

        # Raises
        `ConfigurationError`: other texts or fields than the task reads.
        """
        readable = [*dict.fromkeys(chain(*self.predictor.forms)), *self.predictor.optional_fields]
        for name in fields:
            if name not in readable:
                raise ConfigurationError(f"found the field {name!r}, expected one of {', '.join(readable)}")
        (result,) = self.predictor.predict_batch_json([self._texts(texts, fields)])
        return self._result(result)

    predict = __call__

    def predict_batch(self, examples: Iterable[str | tuple[str, ...] | Mapping[str, Any]]) -> list[Result]:
        """
        Predicts examples, which is faster than one by one: texts, tuples of the texts that the task reads, or
        mappings of the fields of `allennlp predict`.

        # Raises
        `ConfigurationError`, with the index of the first such example: it is not what the task reads.
        """
        # Iterating a pandas table would yield the names of its columns.
        if isinstance(examples, str | Mapping) or getattr(examples, "ndim", 1) != 1:
            raise ConfigurationError(f"found {shorten(repr(examples))}, expected a list of examples")
        inputs = []
        for index, example in enumerate(examples):
            where = f"examples[{index}]"
            try:
                inputs.append(LocatedInput(self._fields(example), where))
            except ConfigurationError as error:
                raise ConfigurationError(f"{where}: {error.message}") from error
        return list(map(self._result, self.predictor.predict_batch_json(inputs)))

    @property
    def _names(self) -> list[str]:
        return list(self.predictor.forms[0])

    def _fields(self, example: Any) -> JsonDict:
        if isinstance(example, Mapping):
            return dict(example)
        return self._texts(example if isinstance(example, tuple | list) else (example,), {})

    def _texts(self, texts: tuple[Any, ...] | list[Any], others: JsonDict) -> JsonDict:
        """Returns the fields of texts by their order, and others by their names."""
        names = self._names
        for text in texts:
            if not isinstance(text, str):
                raise ConfigurationError(f"found {shorten(repr(text))}, expected a text: {', '.join(names)}")
        if len(texts) > len(names) or (len(texts) < len(names) and not others):
            raise ConfigurationError(f"found {len(texts)} texts, expected {len(names)}: {', '.join(names)}")
        content = dict(zip(names, texts, strict=False))
        for name in content.keys() & others.keys():
            raise ConfigurationError(f"found {name!r} as a text and by its name, expected it once")
        return content | others


@overload
def load(name: Literal["ner", "predicates"], *, device: Device = -1) -> TrainedModel[list[Entity]]: ...
@overload
def load(name: Literal["sst", "snli", "topics"], *, device: Device = -1) -> TrainedModel[Label]: ...
@overload
def load(name: Literal["srl"], *, device: Device = -1) -> TrainedModel[list[Predicate]]: ...
@overload
def load(name: Literal["coref"], *, device: Device = -1) -> TrainedModel[list[list[Mention]]]: ...
@overload
def load(name: Literal["squad"], *, device: Device = -1) -> TrainedModel[Answer]: ...
@overload
def load(name: FilePath, *, device: Device = -1) -> TrainedModel[Any]: ...
def load(name: FilePath, *, device: Device = -1) -> TrainedModel[Any]:
    """
    Opens a model that comes with the project by its name, or any archive of ours by its path or URL. A name
    is that of the model unless an archive or the folder of a run has it.

    # Raises
    `ConfigurationError`: no archive has this name, or see `open_archive`.
    """
    path = Path(name)
    ours = str(name).isidentifier() and not path.exists()
    if str(name) in trained_archives():
        ours = not (path.is_file() or (path / CONFIG_NAME).exists())
    archive = open_archive(f"{TRAINED}{name}" if ours else name, device)
    return TrainedModel(Predictor.from_archive(archive))
