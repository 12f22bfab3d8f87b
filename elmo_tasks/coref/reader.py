"""Documents with coreference chains: CoNLL-2012 columns, or JSON Lines of e2e-coref, BERT or PreCo."""

import re
from bisect import bisect
from collections.abc import Generator, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, LabelField, ListField, MetadataField, TensorField, TextField
from allennlp.data.vocabulary import DEFAULT_OOV_TOKEN

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.values import Name
from elmo_tasks.coref.documents import CorefDocument
from elmo_tasks.data.formats.columns import gold_files
from elmo_tasks.data.formats.coreference import FORMATS, NO_SPEAKER, read_documents
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.data.tally import Tally

GENRES = "genres"
"""The vocabulary's namespace of genres; all genres that it does not have share the id of unknown ones."""
UNKNOWN_SPEAKER = 0
_LONG_SENTENCE = 300
_OVER_ENDS = "mentions over the end of a sentence, which the model does not propose"


@DatasetReader.register("elmo_coref")
class CorefReader(TaskReader):
    """
    Makes one instance of each document, or of each part of a document in CoNLL-2012. For the formats see
    `data/formats/coreference.py`, for folders of OntoNotes `gold_files`. Instances have `tokens` (one text
    for each sentence), `speakers` (an id for each token, in the order of the speakers' first words, 0 for
    unknown), `genre` and `metadata` (a `CorefDocument`, with its gold clusters if there are any).

    # Parameters

    singletons : whether gold clusters of one mention are kept. The model predicts none, so they count as
        missed in the metric, and have no effect in training.
    genre_pattern : a regular expression with one group, the genre, that is searched for in a document's id;
        by default OntoNotes' ids, such as `nw/wsj/00/wsj_0001` or `nw`. Without a match the genre is unknown.
    The others : see `TaskReader`.
    """

    formats = FORMATS

    def __init__(
        self, *, singletons: bool = True, genre_pattern: Name = "^([a-z]{2})(?:/|$)", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.singletons = singletons
        with errors_as(InputError, "this is not a regular expression", re.error, key="genre_pattern"):
            self.genre_pattern = re.compile(genre_pattern)
        if self.genre_pattern.groups != 1:
            raise InputError(f"{genre_pattern!r} needs one group in brackets", key="genre_pattern")

    def examples(self, file_path: str) -> Iterator[CorefDocument | InputError]:
        return self.read_files(file_path, self._file, gold_files(file_path))

    def instances(self, example: CorefDocument) -> Iterator[Instance]:
        yield self.text_to_instance(example)

    def labels_of(self, instance: Instance) -> Iterator[str]:
        for cluster in instance["metadata"].metadata.clusters or ():
            yield from ("cluster", *["mention"] * len(cluster))

    def text_to_instance(self, document: CorefDocument) -> Instance:
        """Makes the instance of one document; without gold clusters for prediction."""
        ids = {NO_SPEAKER: UNKNOWN_SPEAKER}
        speakers = [ids.setdefault(speaker, len(ids)) for speaker in document.speakers]
        genre = self.genre_pattern.search(document.id)
        fields: dict[str, Field] = {
            "tokens": ListField([TextField([Token(word) for word in words]) for words in document.sentences]),
            "speakers": TensorField(torch.tensor(speakers)),
            "genre": _GenreField((genre and genre[1]) or DEFAULT_OOV_TOKEN, GENRES),
            "metadata": MetadataField(document),
        }
        return Instance(fields)

    def _file(self, path: Path, counts: Tally) -> Generator[CorefDocument | InputError]:
        for record in read_documents(path, encoding=self.encoding, tell=counts.count_oddity):
            document = record.make(CorefDocument.from_record)
            if isinstance(document, InputError):
                yield document
                continue
            annotation = "no clusters" if document.clusters is None else "clusters"
            counts.check_annotated_alike(record.line, annotation)
            clusters = document.clusters or []
            singletons = sum(len(cluster) == 1 for cluster in clusters)
            if singletons and not self.singletons:
                document.clusters = clusters = [cluster for cluster in clusters if len(cluster) > 1]
            counts["documents"] += 1
            counts["sentences"] += len(document.sentences)
            counts["tokens"] += len(document)
            counts["documents without gold clusters"] += document.clusters is None
            counts["clusters"] += len(clusters)
            counts["mentions"] += sum(map(len, clusters))
            counts["singletons kept" if self.singletons else "singletons dropped"] += singletons
            counts["clusters joined since they had a mention in common"] += document.joined
            ends = list(accumulate(map(len, document.sentences)))
            mentions = (mention for cluster in clusters for mention in cluster)
            if crossing := sum(bisect(ends, first) != bisect(ends, last) for first, last in mentions):
                counts[_OVER_ENDS] += crossing
            if len(document.sentences) == 1 and len(document) > _LONG_SENTENCE:
                kind = f"documents of one sentence of over {_LONG_SENTENCE} tokens"
                counts.count_oddity(kind, None, "is there an empty line after each sentence?")
            yield document


class _GenreField(LabelField):
    """A label whose namespace has an id for unknown labels, without AllenNLP's warning of such namespaces."""

    def _maybe_warn_for_namespace(self, label_namespace: str) -> None:
        pass
