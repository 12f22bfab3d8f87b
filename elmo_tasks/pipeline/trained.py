"""Trained models as Python objects: `load` opens an archive, and its results are named tuples."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_origin, overload

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.common.plugins import import_plugins
from allennlp.models.archival import CONFIG_NAME, Archive
from allennlp.predictors import Predictor

from elmo_tasks.archives import open_archive
from elmo_tasks.archives.opening import TRAINED, trained_archives
from elmo_tasks.common import colours
from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.machine import Device
from elmo_tasks.data.input_files import shorten
from elmo_tasks.pipeline.predictor import InputRecord, TaskPredictor, as_task_predictor, attempt
from elmo_tasks.pipeline.results import (
    Answer,
    Context,
    Entity,
    Label,
    Mention,
    Predicate,
    Predictions,
    SentenceVector,
    Shown,
    TaskResult,
)

Value = TypeVar("Value")
Example: TypeAlias = str | tuple[str, ...] | Mapping[str, Any]


def task_predictor(archive: Archive, min_probability: float = 0.0) -> TaskPredictor:
    """Makes the predictor of an archive; for `min_probability` see `as_task_predictor`."""
    return as_task_predictor(Predictor.from_archive(archive), min_probability)


class TrainedModel(Generic[Value]):
    """A model that predicts from Python."""

    def __init__(self, predictor: TaskPredictor) -> None:
        self.predictor = predictor
        self._forms = list(map(list, predictor.forms))
        self._names = self._forms[0]
        tags = predictor._model.vocab.get_token_to_index_vocabulary("labels")
        self._colours = colours.of_tags(tags)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.predictor.task()}({', '.join(self._names)})>"

    def __call__(self, *texts: str, **fields: Any) -> Value:
        """
        Predicts one example: the texts that the task reads, in order, such as passage and question; or the
        fields of `allennlp predict` by their names, such as `tokens`. Others are a `ConfigurationError`.
        """
        for name in fields:
            if (known := self.predictor.readable()) and name not in known:
                raise ConfigurationError(f"the model does not read {name!r}, but {', '.join(known)}")
        content = self._texts(texts, fields)
        return self._value(content, self.predictor.predict_one(content))

    predict = __call__

    def predict_batch(self, examples: Iterable[Example]) -> list[Value]:
        """Predicts examples; see `stream`."""
        return Predictions(self.stream(examples))

    def stream(self, examples: Iterable[Example]) -> Iterator[Value]:
        """
        Yields the predictions of examples in order: of texts, tuples of the texts that the task reads, or
        mappings of the fields of `allennlp predict`. Most tasks read up to 512 examples ahead, keep no more
        in memory, and predict texts of similar length together, which is faster than one by one. An example
        that the task does not read is a `ConfigurationError` with its index.
        """
        # Iterating a pandas table would yield the names of its columns.
        is_list = isinstance(examples, Iterable) and not isinstance(examples, str | Mapping)
        if not is_list or getattr(examples, "ndim", 1) != 1:
            raise ConfigurationError(f"the examples are not a list: {shorten(repr(examples))}")
        contents: deque[JsonDict | Exception] = deque()

        def records() -> Iterator[InputRecord]:
            for index, example in enumerate(examples):
                contents.append(attempt(self._fields, example))
                yield InputRecord(contents[-1], f"examples[{index}]")

        return (self._value(contents.popleft(), result) for result in self.predictor.stream(records()))

    def _value(self, content: Any, result: TaskResult) -> Any:
        """Returns the value of a result, with the texts that it is about."""
        value = result.value
        if isinstance(value, Shown):
            # Of several forms, a predictor reads the last.
            fields = (
                (name, field) for form in self._forms for name, field in zip(self._names, form, strict=False)
            )
            texts = {name: _text_of(content[field]) for name, field in fields if field in content}
            value.context = Context(texts, self._colours)
        return value

    def _fields(self, example: Any) -> JsonDict:
        if isinstance(example, Mapping):
            return dict(example)
        return self._texts(example if isinstance(example, tuple | list) else (example,), {})

    def _texts(self, texts: tuple[Any, ...] | list[Any], others: JsonDict) -> JsonDict:
        """Returns the fields of texts by their order, and others by their names."""
        names = self._names
        kinds = [get_origin(kind) or kind for kind in self.predictor.forms[0].values()]
        complete = len(texts) == len(names) or (len(texts) < len(names) and others)
        content = dict(zip(names, texts, strict=False))
        fit = all(map(isinstance, texts, kinds))
        if not complete or content.keys() & others.keys() or not fit:
            named = [f"{name}={value!r}" for name, value in others.items()]
            shown = ", ".join([*map(repr, texts), *named]) or "nothing"
            several = "; predict_batch takes a list" if any(isinstance(text, list) for text in texts) else ""
            if any(isinstance(text, float) for text in texts):  # NaN of pandas
                several = '; fillna("") makes empty texts of missing ones'
            raise ConfigurationError(
                f"the model needs a {'string' if {*kinds} == {str} else 'value'} for each of: "
                f"{', '.join(names)}; it got {shorten(shown)}{several}"
            )
        return content | others


def _text_of(words: Any) -> str:
    return words if isinstance(words, str) else " ".join(map(_text_of, words))


@overload
def load(
    name: Literal["ner", "predicates"], *, device: Device = -1, min_probability: float = 0.0
) -> TrainedModel[list[Entity]]: ...
@overload
def load(
    name: Literal["sst", "sentiment", "snli", "topics"], *, device: Device = -1, min_probability: float = 0.0
) -> TrainedModel[Label]: ...
@overload
def load(
    name: Literal["squad"], *, device: Device = -1, min_probability: float = 0.0
) -> TrainedModel[Answer]: ...
@overload
def load(name: Literal["srl"], *, device: Device = -1) -> TrainedModel[list[Predicate]]: ...
@overload
def load(name: Literal["coref"], *, device: Device = -1) -> TrainedModel[list[list[Mention]]]: ...
@overload
def load(name: Literal["sentence"], *, device: Device = -1) -> TrainedModel[SentenceVector]: ...
@overload
def load(name: FilePath, *, device: Device = -1, min_probability: float = 0.0) -> TrainedModel[Any]: ...
def load(name: FilePath, *, device: Device = -1, min_probability: float = 0.0) -> TrainedModel[Any]:
    """
    Opens a trained model of the project by its name, or any archive by its path or URL, whose model may be of
    a plug-in of AllenNLP, such as allennlp-models. An archive or the folder of a run in the working directory
    takes precedence over a trained model with the same name. Labels, entities and answers with a lower
    probability than `min_probability` are left out: a label is `None`, and an answer is empty.

    # Raises
    `ConfigurationError`: the archive cannot be opened, see `open_archive`; or its results have no
    probabilities.
    """
    path = Path(name)
    ours = str(name).isidentifier() and not path.exists()
    if str(name) in trained_archives():
        ours = not (path.is_file() or (path / CONFIG_NAME).exists())
    if not ours:
        import_plugins()
    archive = open_archive(f"{TRAINED}{name}" if ours else name, device)
    return TrainedModel(task_predictor(archive, min_probability))
