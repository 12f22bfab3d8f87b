"""Reads sentences, and pairs of sentences, of several tasks from one file."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.data.fields import Field, LabelField, MetadataField, TextField

from elmo_tasks.data.fields import Metadata, check_label
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.formats.tables import GOLD
from elmo_tasks.data.input_files import InputError, NoWordsError, ids_of, shorten_json
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.data.tally import Tally

Text = str | list[str]
_TEXTS = (("sentence",), ("sentence1", "sentence2"))
_LABELS = (GOLD, "label")
NO_LABEL = -1
"""The id of the label of a pair without one."""


@dataclass
class SentenceText(Metadata):
    sentence1: list[str]
    sentence2: list[str] | None
    task: str

    def __len__(self) -> int:
        """Counts the tokens of the longer sentence, by which samplers sort."""
        return max(len(self.sentence1), len(self.sentence2 or ()))


def namespace_of(task: str, *, pairs: bool) -> str:
    """Returns the namespace of the vocabulary with the labels of a task."""
    return f"{task}_{'pair_' if pairs else ''}labels"


class _Example(NamedTuple):
    ids: dict[str, Any]
    texts: list[str]
    task: str
    label: str | None


@DatasetReader.register("elmo_sentence")
class SentenceReader(TaskReader):
    """
    Reads the records of JSON Lines, JSON, csv, tsv or Parquet. A record has a `task`, a name of one's own;
    a `sentence` and a `label` (or `gold_label`), or a pair, `sentence1` and `sentence2`, with a label or
    without. Pairs without a label belong together, such as neighbours in a text: a model learns to tell them
    from the other pairs of its batch.

    Instances have `sentence1`, `sentence2` (empty for a single sentence), `metadata` (a `SentenceText`) and,
    except for prediction, `label`. The vocabulary has the labels of each task in a namespace of its own.

    # Parameters

    See `TaskReader`.
    """

    def examples(self, file_path: str) -> Iterator[_Example | InputError]:
        return self.read_files(file_path, self._file)

    def instances(self, example: _Example) -> Iterator[Instance]:
        instance = self.text_to_instance(*example.texts, task=example.task, label=example.label)
        instance["metadata"].metadata.ids = example.ids
        yield instance

    def text_to_instance(
        self,
        sentence1: Text,
        sentence2: Text | None = None,
        *,
        task: str | None = None,
        label: str | None = None,
    ) -> Instance:
        """Makes the instance of a sentence or a pair; without `task` for prediction."""
        texts = [self.tokens(text) for text in (sentence1, sentence2) if text is not None]
        if not all(texts):
            raise NoWordsError("a sentence has no words")
        first, second = [*texts, []][:2]
        words = [[token.text or "" for token in tokens] for tokens in texts]
        metadata = SentenceText(words[0], words[1] if sentence2 is not None else None, task or "")
        fields: dict[str, Field] = {
            "sentence1": TextField(first),
            "sentence2": TextField(second),
            "metadata": MetadataField(metadata),
        }
        if task is not None:
            fields["label"] = _TaskLabel(label, namespace_of(task, pairs=sentence2 is not None))
        return Instance(fields)

    def _file(self, path: Path, counts: Tally) -> Generator[_Example | InputError]:
        for record in read_records(path, encoding=self.encoding):
            example = record.make(self._example)
            if not isinstance(example, InputError):
                counts[f"instances: {example.task}"] += 1
            yield example

    def _example(self, values: Mapping[str, Any]) -> _Example:
        names = next((names for names in _TEXTS if names[0] in values), None)
        if names is None:
            raise InputError(f"{shorten_json(values)} has neither 'sentence' nor 'sentence1' and 'sentence2'")
        texts = [_string(values, name) for name in names]
        ids = ids_of(values, {"task", *names, *_LABELS})
        if self.every_record:
            return _Example(ids, texts[:1], "", None)
        task = _string(values, "task")
        if not task.isidentifier():
            raise InputError(f"{task!r} is not the name of a task, which has letters, digits and _ alone")
        label = next((str(values[name]) for name in _LABELS if values.get(name) not in (None, "")), None)
        if label is None and len(texts) == 1:
            raise InputError("there is no label, which a single sentence needs")
        return _Example(ids, texts, task, label)


class _TaskLabel(LabelField):
    """A label in the namespace of its task, or none. When indexed, an unknown one is an error."""

    def __init__(self, label: str | None, namespace: str) -> None:
        super().__init__(NO_LABEL if label is None else label, namespace, skip_indexing=label is None)

    def index(self, vocab: Vocabulary) -> None:
        if self.label != NO_LABEL:
            check_label(str(self.label), list(vocab.get_token_to_index_vocabulary(self._label_namespace)))
            super().index(vocab)


def _string(values: Mapping[str, Any], name: str) -> str:
    if not isinstance(text := values.get(name), str):
        raise InputError(f"{shorten_json(text)} in {name!r} is not a text")
    if not text.strip():
        raise NoWordsError(f"{name!r} has no words")
    return text
