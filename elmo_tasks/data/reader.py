"""The base classes of the tasks' dataset readers, and helpers for their fields."""

import codecs
import logging
import os
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Optional, TypeVar

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Tokenizer
from allennlp.data.dataset_readers import (
    InterleavingDatasetReader,
    MultiTaskDatasetReader,
    ShardedDatasetReader,
)
from allennlp.data.dataset_readers.dataset_reader import DatasetReaderInput
from allennlp.data.fields import ListField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.text_checks import WarnedOnce
from elmo_tasks.common.values import Name, NonNegativeInt
from elmo_tasks.data.fields import ClosedLabelField, ClosedLabelsField, TagField, no_prediction
from elmo_tasks.data.formats import Finding, Format, best_format
from elmo_tasks.data.formats.sample import Sample, sample_of_files
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    check_found,
    input_files,
)
from elmo_tasks.data.tally import Tally
from elmo_tasks.data.tokenization import TokenizerChoice, Words, cached_tokenizer, split_words

Example = TypeVar("Example")


def unwrapped_reader(reader: DatasetReader) -> DatasetReader:
    """Returns the reader that makes the instances, without `elmo_sample`, `sharded` or `interleaving`."""
    if isinstance(reader, InterleavingDatasetReader):
        return unwrapped_reader(next(iter(reader._readers.values())))
    if isinstance(reader, ShardedDatasetReader):
        return unwrapped_reader(reader.reader)
    return unwrapped_reader(reader.wrapped_reader) if hasattr(reader, "wrapped_reader") else reader


def check_readable(reader: DatasetReader, path: DatasetReaderInput) -> None:
    """Reads the first instance of the data, so that a wrong path is found before a training."""
    if isinstance(reader, MultiTaskDatasetReader):
        for task in reader.readers.keys() & path.keys():
            check_readable(reader.readers[task], path[task])
        return
    unwrapped = unwrapped_reader(reader)
    if isinstance(unwrapped, ShardedReader) and not isinstance(reader, InterleavingDatasetReader):
        unwrapped.check(path)
    else:
        check_found(any(True for _ in reader.read(path)), "instances", str(path))


class ShardedReader(StrictParams, DatasetReader):
    """Base class of readers that distribute their instances to the workers themselves."""

    def __init__(self, *, max_instances: Optional[NonNegativeInt] = None) -> None:
        super().__init__(
            max_instances=max_instances, manual_distributed_sharding=True, manual_multiprocess_sharding=True
        )

    def check(self, path: DatasetReaderInput) -> None:
        """Reads the first instance; a file without instances is an error of reading it."""
        next(iter(self.read(path)), None)


class TaskReader(ShardedReader):
    """
    Base class of the tasks' readers, which give `examples` and the `instances` of each.

    # Parameters

    token_indexers : as in any AllenNLP reader, for every text; by default one id a word, named `tokens`.
    encoding : of the files, by its name in Python, such as `cp1252`, `gb18030` or `utf-16`.
    tokenizer : splits text into words, see `chosen_tokenizer`; by default spaCy's rules for English.
    skip_bad : whether to leave out records that do not follow the format, have no words or an unknown label.
        A warning has their number and the first three.
    The others : see `ShardedReader`.

    # Raises
    `ConfigurationError`: an impossible parameter. When reading, `InputError` with file and line: a missing or
    empty file, another encoding, and a record that does not follow the format.
    """

    every_record = False
    """True for a prediction: each record has an instance, and a line in the output."""
    formats: Sequence[Format] = ()
    """The formats of files that `find` and `detected_format` choose from."""
    record_field: ClassVar[str | None] = None
    """The text that instances of one record share; `None` if each record is an instance."""
    whole_files: ClassVar[Mapping[str, Any]] = {}
    """Keys with which no record is left out, for `allennlp elmo inspect`."""
    format: str = "auto"
    """The name of the files' format. Readers of several formats take it as a key."""
    strict: bool = False

    def __init__(
        self,
        *,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        encoding: Name = "utf-8",
        tokenizer: Optional[TokenizerChoice] = None,
        skip_bad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        with errors_as(InputError, "Python lacks it", LookupError, key="encoding"):
            codecs.lookup(encoding)
        self.encoding, self.skip_bad = encoding, skip_bad
        self._warn = WarnedOnce()
        self.bad_records: list[InputError] = []
        """The errors of the bad records that `skip_bad` has left out."""
        self.tokenizer = cached_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer

    @property
    def _token_indexers(self) -> dict[str, TokenIndexer]:
        """The indexers whose ids identify a word, for `allennlp.interpret`."""
        indexers = self.token_indexers.items()
        return {name: indexer for name, indexer in indexers if isinstance(indexer, SingleIdTokenIndexer)}

    def apply_token_indexers(self, instance: Instance) -> None:
        for text in texts_of([instance]):
            text.token_indexers = self.token_indexers
        for field in instance.fields.values():
            if isinstance(field, TagField):
                field.warn = self._warn

    def tokens(self, text: str | list[str]) -> list[Token]:
        """Returns the tokens of a text, or of its words."""
        if not isinstance(text, str):
            return [Token(word) for word in text]
        return self.text_tokenizer.tokenize(text)

    def split(self, text: str) -> Words:
        return split_words(self.text_tokenizer, text)

    @property
    def text_tokenizer(self) -> Tokenizer:
        """The tokenizer of the config, or the default."""
        return self.tokenizer or cached_tokenizer(None)

    def examples(self, file_path: str) -> Iterator[Any]:
        """Yields the examples for all workers; in place of a bad record, its error."""
        raise NotImplementedError

    def instances(self, example: Any) -> Iterable[Instance]:
        """Returns the instances of an example, which one worker takes together."""
        raise NotImplementedError

    def _read(self, file_path: str) -> Iterator[Instance]:
        for example in self.shard_iterable(self.examples(file_path)):
            if isinstance(example, InputError):
                yield no_prediction(example)
            else:
                yield from self.instances(example)

    def read(self, file_path: DatasetReaderInput) -> Iterator[Instance]:
        """Reads instances, see `DatasetReader`; an error about data that exist says how to look at them."""
        try:
            yield from super().read(file_path)
        except InputError as error:
            if isinstance(file_path, str | os.PathLike) and os.path.exists(file_path):
                error.add_note(f"try `allennlp elmo inspect {shlex.quote(str(file_path))}`")
            raise

    @classmethod
    def find(cls, sample: Sample) -> Finding:
        """Returns how the reader may read data of an unknown format."""
        return Finding(max(format.fit(sample) for format in cls.formats), [{}])

    @classmethod
    def completed(cls, sample: Sample, keys: Mapping[str, Any]) -> dict[str, Any]:
        """Returns keys that were found, with those that need more of the data, such as the classes."""
        return dict(keys)

    def format_of(self, files: Sequence[Path]) -> str:
        return self.detected_format(files[0]).name

    def detected_format(self, path: Path) -> Format:
        """Returns the format of the key `format`, or, with `auto`, the likeliest one for a file."""
        if self.format != "auto":
            return next(format for format in self.formats if format.name == self.format)
        return best_format(self.formats, sample_of_files([path], self.encoding))

    def columns_of(self, files: Sequence[Path]) -> dict[str, list[str]]:
        """Returns the columns read as `texts` and `label`, and columns of texts that are `not read`."""
        return {}

    def labels_of(self, instance: Instance) -> Iterator[str]:
        """Yields the class of an instance, or the types of its spans."""
        for field in instance.fields.values():
            if isinstance(field, TagField):
                yield from (tag[2:] for tag in field.labels if tag.startswith(("B-", "U-")))
            elif isinstance(field, ClosedLabelField):
                yield str(field.label)
            elif isinstance(field, ClosedLabelsField):
                yield from map(str, field.labels)

    def sampled(self, instances: Sequence[Instance]) -> None:
        """Receives the instances that a sample has kept, in their order."""

    def valid_examples(
        self, path: Path, examples: Iterable[Example | InputError]
    ) -> Iterator[Example | InputError]:
        """
        Yields the examples of a file, and raises the first error among them; `skip_bad` leaves errors out.
        For a prediction, where each record has a line, it yields them, and so errors of records without
        words.
        """
        errors: list[InputError] = []
        try:
            for example in examples:
                has_line = self.every_record and (self.skip_bad or isinstance(example, NoWordsError))
                if not isinstance(example, InputError) or has_line:
                    yield example
                elif self.skip_bad:
                    errors.append(example)
                else:
                    if isinstance(example, NoWordsError):
                        example.add_note("the reader's key `skip_bad: true` leaves out such records")
                    raise example
        finally:
            self.bad_records += errors
            if errors:
                first = "; ".join(map(str, errors[:3]))
                logging.getLogger(type(self).__module__).warning(
                    "%s: %d bad records left out (skip_bad), the first: %s", path, len(errors), first
                )

    def read_files(
        self,
        file_path: str,
        read: Callable[[Path, Tally], Generator[Example | InputError]],
        paths: Sequence[Path] | None = None,
    ) -> Generator[Example | InputError, None, Tally]:
        """
        Yields the `valid_examples` among those that `read` yields for each of `paths`, by default
        `input_files(file_path)`, and logs the counts of each file, also if `max_instances` ends the reading.
        Returns their sum.
        """
        logger = logging.getLogger(type(self).__module__)
        total = Tally(file_path)
        paths = input_files(file_path) if paths is None else paths
        for path in paths:
            counts = Tally(path, strict=self.strict)
            try:
                with closing(read(path, counts)) as examples:
                    for example in self.valid_examples(path, examples):
                        if isinstance(example, InputError):
                            counts["bad records"] += 1
                        yield example
            finally:
                counts.log(logger)
            check_found(counts, "records", path)
            total.update(counts)
        if len(paths) > 1:
            logger.info("%s: %d files, %s", file_path, len(paths), total)
        return total


def text_fields(field: Field) -> Iterator[TextField]:
    """Yields the texts of a field: the field itself, or the texts in its list."""
    if isinstance(field, TextField):
        yield field
    elif isinstance(field, ListField):
        for part in field.field_list:
            yield from text_fields(part)


def texts_of(instances: Iterable[Instance]) -> list[TextField]:
    fields = (field for instance in instances for field in instance.fields.values())
    return [text for field in fields for text in text_fields(field)]


def join_words(words: list[str]) -> Words:
    """Returns words that come without a text, with the text that joins them by blanks."""
    offsets, start = [], 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return Words(" ".join(words), words, offsets)


def text_field(words: Words) -> TextField:
    """Returns the tokens of a text, each with its characters `[start, end)`."""
    words_and_offsets = zip(words.words, words.offsets, strict=True)
    return TextField([Token(word, idx=start, idx_end=end) for word, (start, end) in words_and_offsets])


def group_id(text: str) -> int:
    """Returns an id of 64 bits that instances with the same text share."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def check_words(words: Sequence[str], **values: Sequence[object] | None) -> None:
    """Raises `ConfigurationError` unless there are words, and each list has a value for each."""
    if not words:
        raise ConfigurationError("a sentence needs at least one word")
    for name, one_a_word in values.items():
        if one_a_word is not None and len(one_a_word) != len(words):
            raise ConfigurationError(f"{len(one_a_word)} {name} do not fit {len(words)} words")
