"""What the tasks' dataset readers share."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Optional, TypeVar

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer
from allennlp.data.fields import ListField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeInt
from elmo_tasks.data.input_files import input_files
from elmo_tasks.data.tokenization import Words

Example = TypeVar("Example")


def whole_reader(reader: DatasetReader) -> DatasetReader:
    """The reader itself; of one that draws a part of the data (`elmo_sample`), the reader of the whole."""
    return getattr(reader, "whole", reader)


class ShardedReader(StrictParams, DatasetReader):
    """
    Base class of readers that deal what they read to the workers by themselves.

    # Parameters

    max_instances, serialization_dir : see `DatasetReader`.
    """

    def __init__(
        self, *, max_instances: Optional[NonNegativeInt] = None, serialization_dir: Optional[Name] = None
    ) -> None:
        super().__init__(
            max_instances=max_instances,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
            serialization_dir=serialization_dir,
        )


class TaskReader(ShardedReader):
    """
    Base class of the readers of tasks. A task's `_read` deals what it reads to the workers by
    `shard_iterable`.

    # Parameters

    token_indexers : as in any AllenNLP reader, for every text; by default one id a word, named `tokens`.
    The others : see `ShardedReader`.
    """

    def __init__(self, *, token_indexers: Optional[dict[str, TokenIndexer]] = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}

    @property
    def _token_indexers(self) -> dict[str, TokenIndexer]:
        """The indexers from whose ids a word can be told, for `allennlp.interpret`."""
        indexers = self.token_indexers.items()
        return {name: indexer for name, indexer in indexers if isinstance(indexer, SingleIdTokenIndexer)}

    def apply_token_indexers(self, instance: Instance) -> None:
        for field in instance.fields.values():
            for text in text_fields(field):
                text.token_indexers = self.token_indexers

    def sampled(self, instances: Sequence[Instance]) -> None:
        """Called with those that a sample has kept of the instances read, in their order."""

    def counted(
        self,
        file_path: str,
        read: Callable[[Path, Counter[str]], Iterator[Example]],
        describe: Callable[[Counter[str]], str],
        paths: Sequence[Path] | None = None,
    ) -> Iterator[Example]:
        """
        The examples of all files. The log says for each file, and for several together, what was counted,
        also where `max_instances` ends the reading.

        # Parameters

        read : makes the examples of a file, and adds to its counts.
        describe : says the counts in words.
        paths : the files; by default those that `input_files` finds.
        """
        logger = logging.getLogger(type(self).__module__)
        total: Counter[str] = Counter()
        paths = input_files(file_path) if paths is None else paths
        for path in paths:
            counts: Counter[str] = Counter()
            try:
                yield from read(path, counts)
            finally:
                if counts:
                    logger.info("%s: %s", path, describe(counts))
            total.update(counts)
        if len(paths) > 1:
            logger.info("%s: %d files, %s", file_path, len(paths), describe(total))


def text_fields(field: Field) -> Iterator[TextField]:
    """The texts of a field: itself, or those of its list."""
    if isinstance(field, TextField):
        yield field
    elif isinstance(field, ListField):
        for part in field.field_list:
            yield from text_fields(part)


def text_field(words: Words) -> TextField:
    """The words of a text, each with its characters `[start, end)`."""
    placed = zip(words.words, words.offsets, strict=True)
    return TextField([Token(word, idx=start, idx_end=end) for word, (start, end) in placed])


def group_number(text: str) -> int:
    """A number of 64 bits that instances with the same text share."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def check_words(words: Sequence[str], **values: Sequence[object] | None) -> None:
    """
    # Parameters

    values : by their names, what there is one of for each word; `None` is not checked.

    # Raises
    `ConfigurationError`: no words, or another number of values than of words.
    """
    if not words:
        raise ConfigurationError("found no words, expected at least one")
    for name, of_words in values.items():
        if of_words is not None and len(of_words) != len(words):
            raise ConfigurationError(f"found {len(of_words)} {name}, expected {len(words)}")
