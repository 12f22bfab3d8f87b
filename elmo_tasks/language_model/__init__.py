"""Pre-training of the biLM."""

from elmo_tasks.language_model.callbacks import ProgressCallback, SoftmaxFirst, TextPerplexities
from elmo_tasks.language_model.model import BiLmModel
from elmo_tasks.language_model.predictor import BiLmPredictor
from elmo_tasks.language_model.reader import BiLmReader, WordsVocabulary

__all__ = [
    "BiLmModel",
    "BiLmPredictor",
    "BiLmReader",
    "ProgressCallback",
    "SoftmaxFirst",
    "TextPerplexities",
    "WordsVocabulary",
]
