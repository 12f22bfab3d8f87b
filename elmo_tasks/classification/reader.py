"""Labelled sentences and pairs of sentences: AG News, SST-2, MRPC, KLUE, TREC, IMDB and the like."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from allennlp.data import DatasetReader, Instance

from elmo_tasks.common.values import Name, Names
from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.formats.tables import GOLD, UNDECIDED, completed, find_texts
from elmo_tasks.data.labelled_texts import LabelledTextReader

Text = str | list[str]


@dataclass
class ClassifierText(Metadata):
    sentence1: list[str]
    sentence2: list[str] | None = None

    def __len__(self) -> int:
        """Counts the tokens of the longer sentence, by which samplers sort."""
        return max(len(self.sentence1), len(self.sentence2 or ()))


@DatasetReader.register("elmo_classifier")
class ClassificationReader(LabelledTextReader):
    """
    Reads text and class from columns of csv, tsv, json, jsonl or Parquet, and from other files of texts.

    Instances have `sentence1`, in pairs also `sentence2`, `metadata` (a `ClassifierText`) and, if labelled,
    `label`. The vocabulary has all classes, in the order of `classes`.

    # Parameters

    sentence1 : the column of the text, or several columns whose texts are joined by blanks; empty texts are
        left out.
    sentence2 : the same for the second sentence of pairs; null: single sentences.
    label : the column of the class; or a column with 0 and 1 for each class, if a text may have several;
        null: the files are text to pre-train on, without labels. In the column `gold_label`, `-` is not a
        class: the record is left out, and counted in the log.
    The others : see `LabelledTextReader`.
    """

    find = staticmethod(find_texts)
    completed = staticmethod(completed)
    text_names = ("sentence1", "sentence2")
    metadata_class = ClassifierText

    def __init__(
        self,
        *,
        sentence1: Union[Name, Names] = "text",
        sentence2: Optional[Union[Name, Names]] = None,
        label: Optional[Union[Name, Names]] = "label",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.texts = [
            [names] if isinstance(names, str) else names
            for names in (sentence1, sentence2)
            if names is not None
        ]
        self.pairs = len(self.texts) == 2
        self.labels = [label] if isinstance(label, str) else label or []
        self.undecided = (UNDECIDED,) if label == GOLD else ()

    @property
    def gives_several(self) -> bool:
        """Whether a text may have several labels."""
        return bool(self.several_labels) or len(self.labels) > 1

    def columns(self, values: Mapping[str, Any]) -> tuple[list[list[str]], list[str]]:
        return self.texts, self.labels

    def text_to_instance(
        self, sentence1: Text, sentence2: Text | None = None, label: str | list[str] | None = None
    ) -> Instance:
        """Makes the instance of a sentence, or of a pair if the reader has `pairs`."""
        return self.instance([text for text in (sentence1, sentence2) if text is not None], label)
