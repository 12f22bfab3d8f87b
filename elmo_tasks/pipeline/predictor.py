"""
The base classes of the tasks' predictors: a batch of records becomes its results, in order.

A task says how a record is read (`read`), how its instance is made (`to_instance`), and, in its model, what
its result is (`results`). The rest is here: long words are refused, inputs of similar length are run
together, and the result of a record with an error is that error, while the others have theirs.
"""

import inspect
import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Optional, TypeAlias, TypeVar, get_args, get_origin

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, Instance, Vocabulary
from allennlp.models import Model
from allennlp.nn.util import move_to_device
from allennlp.predictors import Predictor
from torch import nn

from elmo_tasks.common.batches import batch_sizes
from elmo_tasks.common.errors import ElmoError, did_you_mean
from elmo_tasks.common.files import json_value
from elmo_tasks.common.machine import single_threaded
from elmo_tasks.common.values import Probability, check_value
from elmo_tasks.data import tokenization
from elmo_tasks.data.input_files import ids_of, printable, shorten
from elmo_tasks.data.reader import join_words, texts_of, unwrapped_reader
from elmo_tasks.data.tokenization import TokenizerChoice, is_split_into_characters
from elmo_tasks.pipeline.gradients import Gradients, with_label
from elmo_tasks.pipeline.results import TaskResult

MAX_WORD = 10_000
"""Characters; the characters of a batch are a table as wide as its longest word."""
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 4096, 16_384
"""Tokens, with padding, of a batch; a longer input is a batch of its own. More pay off on a GPU alone."""
SMALL_BATCH = 256
"""Tokens; the operations on such a batch take less time with one thread each."""

logger = logging.getLogger(__name__)

Input = TypeVar("Input")
Output = TypeVar("Output")
Result: TypeAlias = TaskResult | Exception
"""The result of a record, or its error."""


class InputRecord(NamedTuple):
    """One thing to predict: a JSON object, or an instance of a dataset reader, or the error of reading it."""

    content: JsonDict | Instance | Exception
    where: str = ""
    """The place that errors name, such as a file and a line; empty if there is none."""
    row: JsonDict | None = None
    """All values of a row of a table, some of which are the content."""


def attempt(function: Callable[[Input], Output], content: Input | Exception) -> Output | Exception:
    """Returns `function(content)`, or the error that it raises; returns a content that is an error."""
    if isinstance(content, Exception):
        return content
    try:
        return function(content)
    except Exception as error:
        return error


def with_place(result: Output | Exception, where: str) -> Output | Exception:
    """Returns a result. An error becomes a `ConfigurationError` that names the place, if there is one."""
    if not (where and isinstance(result, Exception)):
        return result
    is_of_user = isinstance(result, ConfigurationError | ElmoError)
    error = ConfigurationError(f"{where}: {result if is_of_user else f'{type(result).__name__}: {result}'}")
    error.__cause__ = result
    return error


def value_of(result: Output | Exception) -> Output:
    if isinstance(result, Exception):
        raise result
    return result


def is_stateful(model: Model) -> bool:
    """Returns whether a biLM of the model carries its state from batch to batch."""
    return any(getattr(module, "stateful", False) is True for module in model.modules())


def groups_of(
    records: Iterable[InputRecord], size: int, waits: Callable[[], bool] | None = None
) -> Iterator[list[InputRecord]]:
    """
    Yields the records in groups of at most `size`, and a smaller one where the next record `waits` to arrive.
    If they end with an error, it is raised after those before it.
    """
    group: list[InputRecord] = []
    try:
        for record in records:
            group.append(record)
            if len(group) == size or (waits is not None and waits()):
                yield group
                group = []
    except Exception:
        if group:
            yield group
        raise
    if group:
        yield group


class _Example(NamedTuple):
    """
    An instance, or a JSON object for a predictor of others; and the number of tokens of each text that the
    model reads for it.
    """

    instance: Any
    lengths: list[int]

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


class TaskPredictor(Predictor):
    """
    Base class of the tasks' predictors. A task implements `read`, `to_instance`, and `empty_result` if
    its model cannot read a text without words.
    """

    forms: Sequence[Mapping[str, type]] = ()
    """The alternative forms of an input: for each its fields, and the types of their values."""
    optional_fields: ClassVar[Mapping[str, type]] = {}
    """Further fields that an input of any form may have."""
    max_group: ClassVar[int] = 512
    """The records that are read before they are predicted, so that those of similar length run together."""
    gradients_class: ClassVar[type[Gradients]] = Gradients
    """The gradients of a task, for `allennlp.interpret` and explanations."""
    columns: ClassVar[Sequence[str]] = ()
    """The columns of a result in a table, with a `probability`; none if a result does not fit in one."""
    min_probability = 0.0
    """What has a lower probability is left out of the results, see `TaskResult.above`."""
    may_set_threads = False
    """True in a command or a service, where the user has no threads that compute."""

    def __init__(self, model: Model, dataset_reader: DatasetReader, frozen: bool = True) -> None:
        super().__init__(model, unwrapped_reader(dataset_reader), frozen)
        self.gradients = self.gradients_class(self)

    def readable(self) -> list[str]:
        return [*dict.fromkeys(chain(*self.forms)), *self.optional_fields]

    def ids(self, json_dict: JsonDict) -> JsonDict:
        """Returns the ids of an input, and its short fields that the predictor does not read."""
        return ids_of(json_dict, self.readable())

    def check_fields(self, json_dict: JsonDict) -> JsonDict:
        """Returns an input; `ConfigurationError`: it has a field that is neither read nor one of `ids`."""
        known = self.readable()
        for name in json_dict:
            if known and name not in known and name not in self.ids(json_dict):
                meant = did_you_mean(name, known)
                raise ConfigurationError(f"the model does not read {name!r}, but {', '.join(known)}{meant}")
        return json_dict

    def task(self) -> str:
        """Returns the name of the task, which is the name of the predictor's package, or else its module."""
        return type(self).__module__.split(".")[-2:][0]

    def read(self, json_dict: JsonDict) -> Any:
        """Returns the content of an input, such as its words."""
        return json_dict

    def complete(self, contents: list[Any]) -> list[Any]:
        """Completes the contents of a batch by what is found for all together; some may be errors."""
        return contents

    def empty_result(self, content: Any) -> TaskResult | None:
        """Returns the result of a content without words; `None` if the model has to run."""
        return None

    @abstractmethod
    def to_instance(self, content: Any) -> Instance:
        """Returns the instance of a content."""

    def lengths(self, content: Any) -> list[int]:
        """
        Returns the lengths, in tokens, of the texts that the model reads for a content besides the fields of
        its instance, such as a sentence, once for each of its predicates.
        """
        return []

    def group_size(self) -> int:
        """Returns `max_group`, or one for a biLM that carries its state between records."""
        return 1 if is_stateful(self._model) else self.max_group

    def batch_tokens(self) -> int:
        return BATCH_TOKENS if self._model._get_prediction_device() < 0 else BATCH_TOKENS_ON_GPU

    def load_line(self, line: str) -> JsonDict:
        """Returns the object of a line; `ConfigurationError` if it is not a JSON object."""
        try:
            content = json_value(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            text = shorten(printable(line.strip()))
            raise ConfigurationError(f"not JSON ({error.msg}, column {error.colno}): {text}") from error
        if not isinstance(content, dict):
            raise ConfigurationError(f"not a JSON object: {shorten(printable(line.strip()))}")
        return content

    def predict(self, *texts: str, **fields: Any) -> JsonDict:
        """Returns the JSON object for texts in the order of the first of `forms`, or for fields by name."""
        names = list(self.forms[0])
        if len(texts) > len(names):
            raise ConfigurationError(f"the predictor reads {', '.join(names)}, not {len(texts)} texts")
        return self.predict_json({**dict(zip(names, texts, strict=False)), **fields})

    def predict_one(self, json_dict: JsonDict) -> TaskResult:
        (result,) = self.results([InputRecord(json_dict)])
        return value_of(result)

    def predict_all(self, inputs: Iterable[JsonDict]) -> list[TaskResult]:
        return list(self.stream(map(InputRecord, inputs)))

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return self.to_json(self.predict_one(inputs))

    def predict_batch_json(self, inputs: Iterable[JsonDict]) -> list[JsonDict]:
        return list(map(self.to_json, self.predict_all(inputs)))

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        return list(map(self.to_json, self.run(instances)))

    def to_json(self, result: TaskResult) -> JsonDict:
        return result.to_json()

    def run(self, instances: list[Instance]) -> Sequence[Any]:
        """Runs the model on all instances together, and returns their results."""
        for instance in instances:
            self._dataset_reader.apply_token_indexers(instance)
        model, batch = self._model, Batch(instances)
        batch.index_instances(model.vocab)
        with torch.no_grad():
            fields = move_to_device(batch.as_tensor_dict(), model._get_prediction_device())
            results = model.results(model(**fields))
        if self.min_probability:
            return [result.above(self.min_probability) for result in results]
        return results

    def results(self, records: Sequence[InputRecord], max_tokens: int | None = None) -> list[Result]:
        """
        Returns the result of each record, in order. An input of more than `max_tokens` tokens has an error,
        and a `ConfigurationError` names the place of its record, if it has one.
        """
        results = self._predict(self._examples(records, max_tokens), max_tokens)
        return [with_place(result, record.where) for result, record in zip(results, records, strict=True)]

    def stream(self, records: Iterable[InputRecord]) -> Iterator[TaskResult]:
        """Yields the result of each record, in order, and reads a group ahead; raises the first error."""
        for group in groups_of(records, self.group_size()):
            yield from map(value_of, self.results(group))

    def example(self, json_dict: JsonDict) -> Instance | TaskResult:
        """Returns the instance of an input, or the result of an input without words."""
        (example,) = self._examples([InputRecord(json_dict)])
        return example.instance if isinstance(example, _Example) else value_of(example)

    def get_interpretable_layer(self) -> nn.Module:
        return self.gradients.layer

    def get_interpretable_text_field_embedder(self) -> nn.Module:
        return self.gradients.layer

    def get_gradients(self, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.gradients.of(instances)

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        if not isinstance(example := self.example(json_dict), Instance):
            raise ConfigurationError("the input has no words")
        return example

    def _examples(
        self, records: Sequence[InputRecord], max_tokens: int | None = None
    ) -> list[_Example | Result]:
        """Returns for each record its example, or the result of a text without words, or an error."""
        contents = [attempt(partial(self._read, max_tokens), record.content) for record in records]
        examples = [attempt(partial(self._example, max_tokens), each) for each in self.complete(contents)]
        return [
            self._missing_field(record.content, example) if isinstance(example, KeyError) else example
            for record, example in zip(records, examples, strict=True)
        ]

    def _missing_field(self, content: Any, error: KeyError) -> Exception:
        """Returns an error that shows the form of an input, if one of its fields is missing."""
        name: Any = error.args[0] if error.args else None
        if not isinstance(content, dict) or name in content or name not in chain(*self.forms):
            return error
        form = max(self.forms, key=lambda form: (name in form, len(form.keys() & content.keys())))
        example = json.dumps({name: example_of(kind) for name, kind in form.items()})
        has = ", ".join(f'"{key}"' for key in content) or "no fields"
        missing = ConfigurationError(f'the input needs "{name}", such as {example}; it has {has}')
        missing.__cause__ = error
        return missing

    def _read(self, max_tokens: int | None, content: JsonDict | Instance) -> Any:
        if isinstance(content, Instance):
            return content
        read = self.read(content)
        check_tokens(sum(self.lengths(read)), max_tokens)
        return read

    def _example(self, max_tokens: int | None, content: Any) -> _Example | TaskResult:
        lengths = self.lengths(content)
        if isinstance(content, Instance):
            return _Example(content, lengths + [len(text.tokens) for text in texts_of([content])])
        # Before an instance is made for each of very many predicates
        check_tokens(sum(lengths), max_tokens)
        if (result := self.empty_result(content)) is not None:
            return result
        instance = self.to_instance(content)
        texts = [text.tokens for text in texts_of([instance])]
        for tokens in texts:
            check_word_lengths(token.text or "" for token in tokens)
        example = _Example(instance, lengths + list(map(len, texts)))
        check_tokens(example.tokens, max_tokens)
        return example

    def _predict(self, examples: list[_Example | Result], max_tokens: int | None) -> list[Result]:
        """Replaces each example by its result, in batches of similar length; keeps results and errors."""
        results: list[Any] = list(examples)
        indices = [index for index, example in enumerate(examples) if isinstance(example, _Example)]
        # Questions about one passage stay together, and so do the predicates of a sentence.
        indices.sort(key=lambda index: max(results[index].lengths, default=0))
        tokens = [results[index].tokens for index in indices]
        most = self.batch_tokens()
        is_lone = len(indices) == 1
        for size in [1] if is_lone else list(batch_sizes(tokens, min(most, max_tokens or most))):
            batch, indices = indices[:size], indices[size:]
            # A thread of the user that computes for the first time in the block would stay single-threaded.
            is_small = self.may_set_threads and sum(results[index].tokens for index in batch) <= SMALL_BATCH
            with single_threaded() if is_small else nullcontext():
                predicted = self._run_batch([results[index].instance for index in batch])
            for index, result in zip(batch, predicted, strict=True):
                results[index] = result
        return results

    def _run_batch(self, instances: list[Instance]) -> list[Result]:
        """Runs the model on all instances together or, if that fails, one by one."""
        try:
            return list(self.run(instances))
        except Exception as error:
            if len(instances) == 1:
                return [error]
            return [self._run_batch([instance])[0] for instance in instances]


def example_of(kind: Any, text: str = "...") -> Any:
    """Returns a value of the type of a field of `forms`."""
    if get_origin(kind) is list:
        return [example_of(get_args(kind)[0], text)]
    return {int: 1, float: 0.5, bool: True}.get(kind, text)


def check_tokens(tokens: int, max_tokens: int | None) -> None:
    if max_tokens is not None and tokens > max_tokens:
        raise ConfigurationError(f"the input has {tokens:,} words and signs, and the limit is {max_tokens:,}")


def check_word_lengths(words: Iterable[str]) -> None:
    for position, word in enumerate(words):
        if len(word) > MAX_WORD:
            raise ConfigurationError(
                f"a word has {len(word):,} characters, at position {position}; the limit is {MAX_WORD:,}: "
                f"{shorten(word)}"
            )


class TextPredictor(TaskPredictor):
    """
    Base class of predictors that have a tokenizer.

    # Parameters

    tokenizer : splits plain text, see `chosen_tokenizer`. By default it is the reader's; or `characters`, if
        the words of the archive's vocabulary are single Chinese, Japanese or Korean characters; or else
        spaCy's rules for English.
    spacy_model : an installed spaCy model, as `tokenizer`.
    """

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        spacy_model: Optional[str] = None,
        tokenizer: Optional[TokenizerChoice] = None,
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._spacy_model = spacy_model
        choice = tokenizer or spacy_model or getattr(self._dataset_reader, "tokenizer", None)
        self.tokenizer = tokenization.chosen_tokenizer(choice or self._choice())
        self._tokenize = partial(tokenization.split_words, self.tokenizer)

    def _choice(self) -> str | None:
        """Returns the tokenizer with which the archive's data was split, as far as its words tell."""
        vocab = getattr(self._model, "vocab", None) or Vocabulary()
        indexers = getattr(self._dataset_reader, "_token_indexers", {}).values()
        spaces = [indexer.namespace for indexer in indexers if indexer.namespace]
        words = map(vocab.get_token_to_index_vocabulary, spaces)
        if not is_split_into_characters(chain.from_iterable(words)):
            return None
        logger.info("the model's words are single characters: text is split into characters")
        return "characters"


class SentencePredictor(TextPredictor):
    """Base class of predictors that read `{"sentence": "..."}` or `{"tokens": [...]}`."""

    forms = ({"sentence": str}, {"tokens": list[str]})

    def read(self, json_dict: JsonDict) -> Any:
        sentence = require_text(json_dict, "sentence", "tokens")
        return self._tokenize(sentence) if isinstance(sentence, str) else join_words(sentence)


class LabelPredictor(TaskPredictor):
    """Base class of predictors of the class of a text, or of two, each plain or a list of words."""

    columns = ("label", "probability")

    @abstractmethod
    def text_names(self) -> dict[str, str]:
        """Returns for the field of each text the field of its words."""

    @property
    def forms(self) -> tuple[Mapping[str, type], ...]:  # type: ignore[override]
        names = self.text_names()
        return dict.fromkeys(names, str), dict.fromkeys(names.values(), list[str])

    def read(self, json_dict: JsonDict) -> list[list[str]]:
        texts = [require_text(json_dict, *fields) for fields in self.text_names().items()]
        return [[token.text for token in self._dataset_reader.tokens(text)] for text in texts]

    def to_instance(self, content: list[list[str]]) -> Instance:
        return self._dataset_reader.text_to_instance(*content)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        return [with_label(instance, outputs["label"], self._model.vocab)]


class JsonResult(TaskResult):
    def __init__(self, content: JsonDict) -> None:
        self._content = content

    def to_json(self) -> JsonDict:
        return self._content


class AnyPredictor(TaskPredictor):
    """
    A predictor of AllenNLP or of another package. It reads the texts that its method `predict` takes, or any
    JSON object if it has none; one by one, since its results may depend on the batch.
    """

    max_group = 1

    def __init__(self, predictor: Predictor) -> None:
        super().__init__(predictor._model, predictor._dataset_reader)
        parameters = inspect.signature(getattr(predictor, "predict", lambda: None)).parameters.values()
        texts = [
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        self.predictor, self.forms = predictor, (dict.fromkeys(texts, str),)
        self._dataset_reader = predictor._dataset_reader
        self.load_line, self.dump_line = predictor.load_line, predictor.dump_line  # type: ignore[method-assign]
        self.__doc__ = inspect.getdoc(type(predictor))

    def ids(self, json_dict: JsonDict) -> JsonDict:
        return {}

    def check_fields(self, json_dict: JsonDict) -> JsonDict:
        """Returns the input: what the predictor reads is not known."""
        return json_dict

    def lengths(self, content: JsonDict | Instance) -> list[int]:
        """Counts what blanks separate in a JSON object: how the predictor splits it is not known."""
        return [] if isinstance(content, Instance) else [len(json.dumps(content).split())]

    def _example(self, max_tokens: int | None, content: Any) -> _Example:
        return _Example(content, [])

    def run(self, instances: list[Any]) -> list[JsonResult]:
        """Returns the results of instances, or of JSON objects; `ConfigurationError`: one lacks a field."""
        first = next(iter(instances), None)
        predictor = self.predictor
        # A third-party predictor may implement either the function for one input or that for several.
        if isinstance(first, Instance):
            one, several = predictor.predict_instance, predictor.predict_batch_instance
        else:
            one, several = predictor.predict_json, predictor.predict_batch_json
        try:
            outputs = [one(first)] if len(instances) == 1 else several(instances) if instances else []
        except KeyError as error:
            if isinstance(first, dict) and any(error.args[0] not in content for content in instances):
                raise ConfigurationError(f"the input has no field {error}") from error
            raise
        return list(map(JsonResult, outputs))

    def task(self) -> str:
        """Returns the registered name of the predictor, or the name of its class."""
        kind = type(self.predictor)
        names = (name for name in Predictor.list_available() if Predictor.by_name(name) is kind)
        return next(names, kind.__name__)

    def to_instance(self, content: JsonDict) -> Instance:
        return self.predictor._json_to_instance(content)


def as_task_predictor(predictor: Predictor, min_probability: float = 0.0) -> TaskPredictor:
    """
    Returns a predictor of ours, and another one behind the interface of ours. With `min_probability`, what
    has a lower probability is left out; `ConfigurationError`: the results have no probabilities.
    """
    predictor = predictor if isinstance(predictor, TaskPredictor) else AnyPredictor(predictor)
    if min_probability:
        if not predictor.columns:
            raise ConfigurationError(f"min_probability: the results of {predictor.task()} have none")
        check_value(min_probability, Probability, "min_probability")
        predictor.min_probability = min_probability
    return predictor


def require(json_dict: JsonDict, name: str, kind: type, expected: str) -> Any:
    """
    Returns the value of a field, a tuple as a list. A `ConfigurationError`, which says that the input needs
    `expected`: the field is missing, or its value is not of the type `kind`.
    """
    if name not in json_dict:
        names = ", ".join(f'"{key}"' for key in json_dict)
        raise ConfigurationError(f"the input needs {expected}; it has {names or 'no fields'}")
    value = list(json_dict[name]) if isinstance(json_dict[name], tuple) else json_dict[name]
    if not isinstance(value, kind):
        shown = shorten(json.dumps(value, default=repr))
        raise ConfigurationError(f'"{name}" cannot be {shown}; the input needs {expected}')
    return value


def require_text(json_dict: JsonDict, text: str, tokens: str) -> str | list[str]:
    """Returns the words in the field `tokens`, or else the field `text`; for errors see `require`."""
    expected = f'"{text}": a string, or "{tokens}": a list of strings'
    if tokens in json_dict:
        return require_tokens(json_dict, expected, tokens)
    return require(json_dict, text, str, expected)


def require_tokens(json_dict: JsonDict, expected: str, name: str = "tokens") -> list[str]:
    """Returns the list of strings in the field `name`; for errors see `require`."""
    words = require(json_dict, name, list, expected)
    for position, word in enumerate(words):
        if not isinstance(word, str):
            raise ConfigurationError(
                f'"{name}" has {shorten(repr(word))} at position {position}, which is not a string'
            )
    return words
