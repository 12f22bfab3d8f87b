"""Prediction of JSON Lines: an error names the line, and the results before it are written."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any, ClassVar

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import sanitize
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import TextField
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.common import strict_json
from elmo_tasks.common.batches import batches
from elmo_tasks.common.machine import one_thread_each
from elmo_tasks.data.input_files import printable, shorten
from elmo_tasks.data.reader import text_fields, unwrapped_reader

MAX_WORD = 10_000
"""Characters; the characters of a batch are a table as wide as its longest word."""
TOKENS_AT_ONCE = 16_384
"""Tokens, and padding, that the model reads at once; a longer input is read alone."""
SMALL_BATCH = 256
"""Tokens; operations of such a batch take less time with one thread each."""
_UNDECODED = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, as `surrogateescape` decodes them."""
_SURROGATE = re.compile("[\ud800-\udfff]")

INPUT_ERRORS = (
    ConfigurationError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""The errors that an input may cause that is wrong or too large."""


class LocatedInput(JsonDict):
    """An input with its location, which errors name, and the error that it has already, if any."""

    def __init__(self, content: Any, where: str, error: str | None = None) -> None:
        super().__init__(content)
        self.where = where
        self.error = error


class JsonLinesPredictor(Predictor):
    """
    Base class of the tasks' predictors. A task implements `read` (the content of a JSON object),
    `to_instance` (the instance of a content) and `empty_result` (the result of a content without words).

    AllenNLP reads a batch of lines before it predicts it: at a bad line, the results of the good lines of the
    batch are lost. Here a bad line raises its error after the results of the lines before it.
    """

    forms: Sequence[dict[str, Any]] = ()
    """The alternative forms of an input: for each its fields, and the types of their values."""
    optional_fields: ClassVar[dict[str, Any]] = {}
    """Further fields that an input of any form may have."""
    in_own_process = False
    """True in a command or a service, where no thread of the user begins to compute meanwhile."""

    def __init__(self, model: Model, dataset_reader: DatasetReader, frozen: bool = True) -> None:
        super().__init__(model, unwrapped_reader(dataset_reader), frozen)
        self.lines_read = 0
        """Number of lines so far, by which errors name a line."""
        self.source: str | None = None
        """The file of the lines, which errors name, too; then blank lines count."""

    @classmethod
    def task(cls) -> str:
        """Returns the name of the task: that of the predictor's package."""
        return cls.__module__.split(".")[-2]

    def read(self, json_dict: JsonDict) -> Any:
        """Returns the content of an input, such as its words."""
        return json_dict

    def begin_batch(self, inputs: list[JsonDict]) -> None:
        """Receives the inputs of a batch before they are read one by one."""

    def empty_result(self, content: Any) -> JsonDict | None:
        """Returns the result of a content without words; `None` if the model has to run."""
        return None

    def to_instance(self, content: Any) -> Instance:
        """Returns the instance of a content of `read`."""
        raise NotImplementedError

    def parts(self, instance: Instance) -> list[Instance]:
        """Returns the instances that the model reads for an instance of `to_instance`."""
        return [instance]

    def num_tokens(self, instance: Instance) -> int:
        """Returns the number of tokens that the model reads for an instance of `to_instance`."""
        return sum(len(text.tokens) for text in self._texts(instance))

    def min_tokens(self, content: Any) -> int:
        """Returns a lower bound of `num_tokens` that needs no instance."""
        return 0

    def load_line(self, line: str) -> JsonDict:
        """Returns the object of a line, decoded with `surrogateescape`; prediction raises its errors."""
        where = self._next_line()
        text = printable(line.strip())
        if (byte := _UNDECODED.search(line)) is not None:
            offset = len(line[: byte.start()].encode("utf-8", "surrogateescape"))
            found = f"found the byte 0x{ord(byte.group()) - 0xDC00:02x} at offset {offset}, expected UTF-8"
            return LocatedInput({}, where, f"{found}: {shorten(text)}")
        try:
            content = strict_json.loads(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            found = f"not JSON ({error.msg}, column {error.colno})"
            return LocatedInput({}, where, f"{found}: {shorten(text)}")
        if not isinstance(content, dict):
            return LocatedInput({}, where, f"found {shorten(text)}, expected a JSON object")
        return LocatedInput(content, where)

    def unreadable_line(self, reason: str) -> JsonDict:
        """Returns an object for a line that cannot be read; predicting it raises an error."""
        return LocatedInput({}, self._next_line(), reason)

    def _next_line(self) -> str:
        self.lines_read += 1
        if self.source is None:
            return f"line {self.lines_read} (blank lines not counted)"
        return f"{self.source}, line {self.lines_read}"

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return next(self.predict_each([inputs]))

    def predict_batch_json(self, inputs: Iterable[JsonDict]) -> list[JsonDict]:
        return list(self.predict_each(inputs))

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        for instance in instances:
            self._dataset_reader.apply_token_indexers(instance)
        return list(map(_plain, self._model.forward_on_instances(instances)))

    def predict_each(self, inputs: Iterable[JsonDict]) -> Iterator[JsonDict]:
        """
        Yields the results of inputs in order; those before a bad input come before its error. Inputs of
        similar length are read together, see `TOKENS_AT_ONCE`.
        """
        inputs = list(inputs)
        self.begin_batch(inputs)
        prepared: list[JsonDict | Instance] = []
        problem = None
        for json_dict in inputs:
            try:
                prepared.append(self._prepare(json_dict))
            except ConfigurationError as error:
                problem = error
                break
        for result, json_dict in zip(self._predicted(prepared, TOKENS_AT_ONCE), inputs, strict=False):
            if isinstance(result, Exception):
                with _naming_location(json_dict):
                    raise result
            yield result
        if problem is not None:
            raise problem

    def answers(self, inputs: list[JsonDict], max_tokens: int) -> list[JsonDict | Exception]:
        """
        Returns for each input its result or its error: a `ConfigurationError` for a wrong or too long input,
        and any other error of the model. The model reads at most `max_tokens` at once, padding included.
        """
        self.begin_batch(inputs)
        return self._predicted([self._try_prepare(json_dict, max_tokens) for json_dict in inputs], max_tokens)

    def _try_prepare(self, json_dict: JsonDict, max_tokens: int) -> JsonDict | Instance | ConfigurationError:
        try:
            item = self._prepare(json_dict, max_tokens)
            if isinstance(item, Instance):
                _check_tokens(self.num_tokens(item), max_tokens)
        except INPUT_ERRORS as error:
            return ConfigurationError(_reason(error))
        return item

    def _predicted(self, items: Sequence[Any], max_tokens: int) -> list[Any]:
        """Puts results or errors in place of the instances, which are read in batches of similar length."""
        results = list(items)
        lengths = {
            index: self.num_tokens(item) for index, item in enumerate(items) if isinstance(item, Instance)
        }
        for indices in batches(sorted(lengths, key=lengths.__getitem__), lengths.__getitem__, max_tokens):
            batch = self._try_predict([items[index] for index in indices])
            for index, result in zip(indices, batch, strict=True):
                results[index] = result
        return results

    def _try_predict(self, instances: list[Instance]) -> list[JsonDict | Exception]:
        """Predicts all instances at once, or, if that fails, one by one."""
        is_small = self.in_own_process and sum(map(self.num_tokens, instances)) <= SMALL_BATCH
        try:
            with one_thread_each() if is_small else nullcontext():
                return list(self.predict_batch_instance(instances)) if instances else []
        except Exception as error:
            if len(instances) == 1:
                return [error]
            return [self._try_predict([instance])[0] for instance in instances]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self.to_instance(self.read(json_dict))

    def _prepare(self, json_dict: JsonDict, max_tokens: int = sys.maxsize) -> JsonDict | Instance:
        with _naming_location(json_dict):
            if isinstance(json_dict, LocatedInput) and json_dict.error is not None:
                raise ConfigurationError(json_dict.error)
            _check_characters(json_dict)
            content = self.read(json_dict)
            result = self.empty_result(content)
            if result is not None:
                return result
            _check_tokens(self.min_tokens(content), max_tokens)
            instance = self.to_instance(content)
            for text in self._texts(instance):
                _check_lengths(text)
            return instance

    def _texts(self, instance: Instance) -> Iterator[TextField]:
        for part in self.parts(instance):
            for field in part.fields.values():
                yield from text_fields(field)


def _plain(value: Any) -> Any:
    """Returns the same as AllenNLP's `sanitize`, which imports a module for each number."""
    kind = type(value)
    if kind in (float, int, str, bool):
        return value
    if kind is dict:
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if kind is list else sanitize(value)


@contextmanager
def _naming_location(json_dict: JsonDict) -> Iterator[None]:
    """Turns an error of an input that has a location into a `ConfigurationError` that names it."""
    try:
        yield
    except INPUT_ERRORS as error:
        if not isinstance(json_dict, LocatedInput):
            raise
        raise ConfigurationError(f"{json_dict.where}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"


def _check_characters(json_dict: JsonDict) -> None:
    """Raises an error for half of a surrogate pair, which `strict_json` refuses in lines and requests."""
    for name, value in json_dict.items():
        for text in _strings(value):
            if surrogate := _SURROGATE.search(text):
                found = f"{surrogate[0]!r} at offset {surrogate.start()} of {shorten(text)!r}"
                raise ConfigurationError(
                    f'"{name}": found {found}, half of a surrogate pair, which is no character; expected text'
                )


def _strings(value: Any) -> Iterator[str]:
    """Yields a string, or the strings of lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_strings, value))


def _check_tokens(tokens: int, max_tokens: int) -> None:
    if tokens > max_tokens:
        raise ConfigurationError(f"found {tokens:,} tokens to read, expected at most {max_tokens:,}")


def _check_lengths(text: TextField) -> None:
    for position, token in enumerate(text.tokens):
        if len(token.text or "") > MAX_WORD:
            raise ConfigurationError(
                f"found a word of {len(token.text):,} characters at position {position}, expected at most "
                f"{MAX_WORD:,}: {shorten(token.text)}"
            )
