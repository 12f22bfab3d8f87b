"""Pre-training of the biLM."""

from elmo_tasks.language_model.callbacks import ProgressCallback, TextPerplexities
from elmo_tasks.language_model.model import BiLmModel
from elmo_tasks.language_model.predictor import BiLmPredictor
from elmo_tasks.language_model.reader import BiLmReader, WordsVocabulary
from elmo_tasks.language_model.softmax_first import SoftmaxFirst

__all__ = [
    "BiLmModel",
    "BiLmPredictor",
    "BiLmReader",
    "ProgressCallback",
    "SoftmaxFirst",
    "TextPerplexities",
    "WordsVocabulary",
]
