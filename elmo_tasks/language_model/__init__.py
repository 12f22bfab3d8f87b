"""Pre-training of the biLM."""

from elmo_tasks.language_model.model import BiLmModel
from elmo_tasks.language_model.predictor import BiLmPredictor
from elmo_tasks.language_model.progress import ProgressCallback
from elmo_tasks.language_model.reader import BiLmReader
from elmo_tasks.language_model.softmax_first import SoftmaxFirst
from elmo_tasks.language_model.text_perplexities import TextPerplexities
from elmo_tasks.language_model.vocabulary import WordsVocabulary

__all__ = [
    "BiLmModel",
    "BiLmPredictor",
    "BiLmReader",
    "ProgressCallback",
    "SoftmaxFirst",
    "TextPerplexities",
    "WordsVocabulary",
]
