"""Predicting JSON Lines: an error names the line, and what was predicted before it is written."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import TextField
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.common import strict_json
from elmo_tasks.common.batches import batches
from elmo_tasks.data.json_lines import printable, shorten
from elmo_tasks.data.reader import text_fields, whole_reader

MAX_WORD = 10_000
"""Characters; a table of all characters of all words of a batch is as wide as the longest word."""
_NO_UTF8 = re.compile("[\udc80-\udcff]")
"""Bytes as `surrogateescape` decodes them."""

_INPUT_ERRORS = (
    ConfigurationError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""The errors that an input may cause, since it is bad or too large."""


class _Line(JsonDict):
    """The JSON object of a line that remembers where it was, and what is wrong with it."""

    def __init__(self, content: Any, where: str, error: str | None = None) -> None:
        super().__init__(content)
        self.where = where
        self.error = error


class JsonLinesPredictor(Predictor):
    """
    Base class of the tasks' predictors. A task says what it reads of a JSON object (`read`), how that becomes
    an instance (`to_instance`), and what the result is where there is nothing to predict for
    (`empty_result`).

    AllenNLP reads a whole batch of lines before it predicts it, and stops at the first bad line: the good
    lines of that batch would be lost. Here a bad line is kept in its place, and raises when its turn comes.
    """

    forms: Sequence[dict[str, Any]] = ()
    """What an input may be: for each form its fields, and the types of their values."""
    optional_fields: ClassVar[dict[str, Any]] = {}
    """The fields that an input of any form may have besides."""

    def __init__(self, model: Model, dataset_reader: DatasetReader, frozen: bool = True) -> None:
        super().__init__(model, whole_reader(dataset_reader), frozen)
        self.lines_read = 0
        """By which errors name a line."""

    @classmethod
    def task(cls) -> str:
        """The folder of the package that the predictor stands in."""
        return cls.__module__.split(".")[-2]

    def read(self, json_dict: JsonDict) -> Any:
        """The content of an input, such as its words."""
        return json_dict

    def empty_result(self, content: Any) -> JsonDict | None:
        """The result where there is nothing to predict for, or `None` to run the model."""
        return None

    def to_instance(self, content: Any) -> Instance:
        """The instance of what `read` returns."""
        raise NotImplementedError

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self.to_instance(self.read(json_dict))

    def parts(self, instance: Instance) -> list[Instance]:
        """What the model sees of an instance that `to_instance` makes."""
        return [instance]

    def num_tokens(self, instance: Instance) -> int:
        """What the model reads of an instance that `to_instance` makes."""
        return sum(len(text.tokens) for text in self._texts(instance))

    def least_tokens(self, content: Any) -> int:
        """What the model reads at least of what `read` returns, where that is known without an instance."""
        return 0

    def load_line(self, line: str) -> JsonDict:
        """
        The object of a line; bytes that are not UTF-8 are decoded with `surrogateescape`. What is wrong with
        the line is raised when it is predicted.
        """
        where = self._next_line()
        text = printable(line.strip())
        if (byte := _NO_UTF8.search(line)) is not None:
            before = len(line[: byte.start()].encode("utf-8", "surrogateescape"))
            found = f"found the byte 0x{ord(byte.group()) - 0xDC00:02x} at offset {before}, expected UTF-8"
            return _Line({}, where, f"{found}: {shorten(text)}")
        try:
            content = strict_json.loads(line)
        except json.JSONDecodeError as error:
            return _Line({}, where, f"not JSON ({error}): {shorten(text)}")
        if not isinstance(content, dict):
            return _Line({}, where, f"found {shorten(text)}, expected a JSON object")
        return _Line(content, where)

    def unreadable_line(self, reason: str) -> JsonDict:
        """In the place of a line that cannot be read; it raises when its turn comes."""
        return _Line({}, self._next_line(), reason)

    def _next_line(self) -> str:
        self.lines_read += 1
        return f"line {self.lines_read} (blank lines not counted)"

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return next(self.predict_each([inputs]))

    def predict_batch_json(self, inputs: Iterable[JsonDict]) -> list[JsonDict]:
        """The results, in order."""
        return list(self.predict_each(inputs))

    def predict_each(self, inputs: Iterable[JsonDict]) -> Iterator[JsonDict]:
        """The results of a batch one by one, in order; those before a bad input come out before it raises."""
        inputs = list(inputs)
        prepared: list[JsonDict | Instance] = []
        problem = None
        for json_dict in inputs:
            try:
                prepared.append(self._prepare(json_dict))
            except ConfigurationError as error:
                problem = error
                break
        predicted = self._predict_instances([item for item in prepared if isinstance(item, Instance)])
        for item, json_dict in zip(prepared, inputs, strict=False):
            with _naming_line(json_dict):
                result = next(predicted) if isinstance(item, Instance) else item
            yield result
        if problem is not None:
            raise problem

    def answers(self, inputs: list[JsonDict], most_tokens: int) -> list[JsonDict | Exception]:
        """
        Returns for each input its result or, in its place, what is wrong: a `ConfigurationError` with the
        input, as one of more than `most_tokens`; anything else with the model, which gets no more than that
        at once, the padding of shorter inputs included.
        """
        answers: list[Any] = [self._try_prepare(one, most_tokens) for one in inputs]
        lengths = {
            place: self.num_tokens(item) for place, item in enumerate(answers) if isinstance(item, Instance)
        }
        for places in batches(sorted(lengths, key=lengths.__getitem__), lengths.__getitem__, most_tokens):
            batch = self._try_predict([answers[place] for place in places])
            for place, answer in zip(places, batch, strict=True):
                answers[place] = answer
        return answers

    def _try_prepare(self, json_dict: JsonDict, most_tokens: int) -> JsonDict | Instance | ConfigurationError:
        try:
            item = self._prepare(json_dict, most_tokens)
            if isinstance(item, Instance):
                _check_tokens(self.num_tokens(item), most_tokens)
        except _INPUT_ERRORS as error:
            return ConfigurationError(_reason(error))
        return item

    def _try_predict(self, instances: list[Instance]) -> list[JsonDict | Exception]:
        """One by one where all together are too much, or one of them breaks the model."""
        try:
            return list(self.predict_batch_instance(instances))
        except Exception as error:
            if len(instances) == 1:
                return [error]
            return [self._try_predict([one])[0] for one in instances]

    def _predict_instances(self, instances: list[Instance]) -> Iterator[JsonDict]:
        """The results; one by one where all together are too much, or one of them breaks the model."""
        results: list[JsonDict] = []
        with suppress(*_INPUT_ERRORS):
            results = self.predict_batch_instance(instances) if instances else []
        return iter(results) if results else map(self.predict_instance, instances)

    def _prepare(self, json_dict: JsonDict, most_tokens: int = sys.maxsize) -> JsonDict | Instance:
        """An instance for the model, or a result that needs none."""
        with _naming_line(json_dict):
            if isinstance(json_dict, _Line) and json_dict.error is not None:
                raise ConfigurationError(json_dict.error)
            content = self.read(json_dict)
            empty = self.empty_result(content)
            if empty is not None:
                return empty
            _check_tokens(self.least_tokens(content), most_tokens)
            instance = self.to_instance(content)
            for text in self._texts(instance):
                _check_lengths(text)
            return instance

    def _texts(self, instance: Instance) -> Iterator[TextField]:
        for part in self.parts(instance):
            for field in part.fields.values():
                yield from text_fields(field)


@contextmanager
def _naming_line(json_dict: JsonDict) -> Iterator[None]:
    """An error within becomes a `ConfigurationError`, with the line that the object comes from."""
    try:
        yield
    except _INPUT_ERRORS as error:
        if not isinstance(json_dict, _Line):
            raise
        raise ConfigurationError(f"{json_dict.where}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"


def _check_tokens(tokens: int, most: int) -> None:
    if tokens > most:
        raise ConfigurationError(f"found {tokens:,} tokens to read, expected at most {most:,}")


def _check_lengths(text: TextField) -> None:
    for place, token in enumerate(text.tokens):
        if len(token.text or "") > MAX_WORD:
            raise ConfigurationError(
                f"found a word of {len(token.text):,} characters at position {place}, expected at most "
                f"{MAX_WORD:,}: {shorten(token.text)}"
            )
