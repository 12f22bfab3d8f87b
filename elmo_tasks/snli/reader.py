"""Reads pairs of sentences, and whether the first entails the second: SNLI, MultiNLI, ANLI and the like."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Optional, Union

from allennlp.data import DatasetReader, Instance, Token, Tokenizer

from elmo_tasks.common.values import Name, Names
from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.formats.tables import (
    COLUMN_NAMES,
    ENTAILMENT_LABELS,
    OTHER_NAMES,
    UNDECIDED_PAIRS,
    find_pairs,
    known_column,
)
from elmo_tasks.data.labelled_texts import LabelledTextReader

_MAX_CACHED = 500
"""Maximum number of characters of a sentence whose words are cached."""


@dataclass
class SnliPair(Metadata):
    premise: list[str]
    hypothesis: list[str]

    def __getitem__(self, name: str) -> Any:
        """Knows AllenNLP's name, `premise_tokens`, too."""
        return super().__getitem__(name.removesuffix("_tokens"))

    def __len__(self) -> int:
        """Counts the tokens of the longer sentence, by which samplers sort."""
        return max(len(self.premise), len(self.hypothesis))


@DatasetReader.register("elmo_snli")
class SnliReader(LabelledTextReader):
    """
    Reads a premise, a hypothesis and a label. Pairs with the label `-`, or -1, on which the annotators did
    not agree, are left out, and counted in the log.

    Formats: https://nlp.stanford.edu/projects/snli/, https://cims.nyu.edu/~sbowman/multinli/,
    https://github.com/facebookresearch/anli and https://zenodo.org/records/2787612 (SICK). Instances have
    `premise`, `hypothesis`, `metadata` (an `SnliPair`) and, if labelled, `label`. The vocabulary has the
    labels in the order of `classes`.

    # Parameters

    classes : by default entailment, neutral and contradiction, in the files also `e`, `n` and `c`, or in
        capitals.
    premise, hypothesis, label : the columns; by default those of `COLUMN_NAMES`, such as `sentence1`,
        `sentence2` and `gold_label`, in any case.
    The others : see `LabelledTextReader`.
    """

    find = staticmethod(find_pairs)
    renamed_keys: ClassVar[dict[str, str]] = {"spacy_model": "tokenizer"}
    undecided = UNDECIDED_PAIRS
    pairs = True
    text_names = ("premise", "hypothesis")
    metadata_class = SnliPair

    def __init__(
        self,
        *,
        classes: Optional[list[Optional[Name]]] = None,
        label_names: Optional[dict[str, Optional[Name]]] = None,
        premise: Optional[Union[Name, Names]] = None,
        hypothesis: Optional[Union[Name, Names]] = None,
        label: Optional[Name] = None,
        **kwargs: Any,
    ) -> None:
        classes = list(ENTAILMENT_LABELS) if classes is None else classes
        if label_names is None and tuple(classes) == ENTAILMENT_LABELS:
            label_names = {**dict(zip(ENTAILMENT_LABELS, ENTAILMENT_LABELS, strict=True)), **OTHER_NAMES}
        super().__init__(classes=classes, label_names=label_names, **kwargs)
        self._columns: dict[str, Any] = {"premise": premise, "hypothesis": hypothesis, "label": label}

    def columns(self, values: Mapping[str, Any]) -> tuple[list[list[str]], list[str]]:
        premise, hypothesis, label = (
            chosen or known_column(name, values) or COLUMN_NAMES[name][0]
            for name, chosen in self._columns.items()
        )
        return [[names] if isinstance(names, str) else names for names in (premise, hypothesis)], [label]

    def text_to_instance(
        self, premise: str | list[str], hypothesis: str | list[str], label: str | None = None
    ) -> Instance:
        """Makes the instance of one pair, see `instance`; without `label` for prediction."""
        return self.instance([premise, hypothesis], label)

    def tokens(self, text: str | list[str]) -> list[Token]:
        """Returns tokens that are not to be changed: the hypotheses of a premise share its list."""
        tokenizer = self.text_tokenizer
        if isinstance(text, str) and len(text) <= _MAX_CACHED and isinstance(tokenizer, Hashable):
            return _cached_tokens(tokenizer, text)
        return super().tokens(text)


@lru_cache(maxsize=1 << 12)
def _cached_tokens(tokenizer: Tokenizer, text: str) -> list[Token]:
    return tokenizer.tokenize(text)
