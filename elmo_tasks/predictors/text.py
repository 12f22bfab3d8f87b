"""Predictors of plain text, which they cut into words."""

from typing import Optional

from allennlp.data import DatasetReader
from allennlp.models import Model

from elmo_tasks.data.tokenization import tokenizer
from elmo_tasks.predictors.interpretation import InterpretablePredictor


class TextPredictor(InterpretablePredictor):
    """
    Base class of predictors that have a tokenizer.

    # Parameters

    spacy_model : name of an installed spaCy model whose tokenizer is used for plain text; the tokenizer of
        blank English by default.
    """

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        spacy_model: Optional[str] = None,
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._spacy_model = spacy_model
        self._tokenize = tokenizer(spacy_model)
