"""Sentences with entity tags in columns: CoNLL 2003, W-NUT and the like."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, TokenIndexer
from allennlp.data.fields import Field, MetadataField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.modules.input_files import InputError, input_files, read_lines
from elmo_tasks.modules.tag_field import TagField
from elmo_tasks.modules.tag_schemes import (
    MixedSchemeError,
    Scheme,
    TagError,
    detect_scheme,
    from_spans,
    to_spans,
)
from elmo_tasks.modules.tokenization import joined
from elmo_tasks.strict_params import StrictParams

logger = logging.getLogger(__name__)

_WORD, _TAG = "word", "tag"
_DOCUMENT_START = re.compile(r"-DOCSTART-(\s|$)")


class Sentence(NamedTuple):
    """A sentence of a file: the words, their tags as they stand there, and the lines they stand in."""

    words: list[str]
    tags: list[str]
    lines: list[int]


@DatasetReader.register("elmo_ner")
class NerReader(StrictParams, DatasetReader):
    """
    One token a line, its columns separated by white space, a blank line between sentences; lines that
    begin with `-DOCSTART-` separate documents and are no tokens.

    Format: https://www.clips.uantwerpen.be/conll2003/ner/. Instances have `tokens`, `tags` (BIOUL) and
    `metadata`: `words`, `text`, `offsets` (characters `[start, end)` of each word in the text) and, of
    tagged sentences, `gold_tags` (IOB2).

    # Parameters

    token_indexers : as in any AllenNLP reader; by default one id a word, named `tokens`.
    columns : names of the columns in order: `word` and `tag` once each, all others are ignored.
    delimiter : what separates the columns; by default any run of blanks and tabs.
    tag_scheme : IOB1, IOB2, BIOES, BIOUL, or `auto`: found out for each file.
    The others : see `DatasetReader`.

    # Raises
    `ConfigurationError`: impossible columns, delimiter or scheme. When reading, `InputError` with file
    and line: no file, no sentence in a file, not UTF-8, a number of columns other than given, an empty
    word, and a tag that does not exist, not in this scheme or not in this place.
    """

    def __init__(
        self,
        *,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        columns: Sequence[str] = (_WORD, "pos", "chunk", _TAG),
        delimiter: Optional[str] = None,
        tag_scheme: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            manual_distributed_sharding=True, manual_multiprocess_sharding=True, **kwargs
        )
        _check_columns(columns)
        if delimiter == "":
            raise ConfigurationError("delimiter: found '', expected a string such as a tab, or null")
        self.token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self.columns = tuple(columns)
        self.delimiter = delimiter
        self.scheme = _scheme(tag_scheme)

    def _read(self, file_path: str) -> Iterator[Instance]:
        for sentence in self.shard_iterable(self._sentences(file_path)):
            yield self.text_to_instance(sentence.words, sentence.tags)

    def text_to_instance(
        self,
        words: list[str],
        tags: Optional[list[str]] = None,
        *,
        text: Optional[str] = None,
        offsets: Optional[list[tuple[int, int]]] = None,
    ) -> Instance:
        """
        The instance of one sentence; without `tags` for prediction.

        `text` and `offsets` (characters `[start, end)` of each word in it) go together; without them
        the text is the words with blanks between them.

        # Raises
        `ConfigurationError`: no words, other numbers of tags or offsets than words, only one of `text`
        and `offsets`. `TagError` and `MixedSchemeError`: impossible tags.
        """
        if text is None or offsets is None:
            _check_together(text, offsets)
            text, _, offsets = joined(words)
        _check_lengths(words, tags, offsets)
        tokens = TextField(
            [
                Token(word, idx=start, idx_end=end)
                for word, (start, end) in zip(words, offsets, strict=True)
            ]
        )
        metadata: dict[str, Any] = {"words": words, "text": text, "offsets": offsets}
        fields: dict[str, Field] = {"tokens": tokens, "metadata": MetadataField(metadata)}
        if tags is not None:
            spans = to_spans(tags, self.scheme or detect_scheme([tags]))
            fields["tags"] = TagField(from_spans(spans, len(words), Scheme.BIOUL), tokens)
            metadata["gold_tags"] = from_spans(spans, len(words), Scheme.IOB2)
        return Instance(fields)

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["tokens"].token_indexers = self.token_indexers

    def _sentences(self, file_path: str) -> Iterator[Sentence]:
        """All sentences of all files, checked; each file is read as a whole to find its scheme."""
        for path in input_files(file_path):
            sentences = list(self._parse(path))
            if not sentences:
                raise InputError.at(path, found="no sentence", expected="at least one")
            _check_tags(path, sentences, self.scheme)
            yield from sentences

    def _parse(self, path: Path) -> Iterator[Sentence]:
        sentence = Sentence([], [], [])
        for number, line in read_lines(path):
            if not line.strip(" \t") or _DOCUMENT_START.match(line):
                if sentence.words:
                    yield sentence
                    sentence = Sentence([], [], [])
                continue
            fields = self._split(line)
            if len(fields) != len(self.columns):
                ...
        if sentence.words:
            yield sentence
