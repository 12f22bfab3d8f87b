"""The predictor of the biLM: the probabilities of a sentence's words."""

from dataclasses import dataclass

import numpy as np
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Token
from allennlp.data.fields import TextField
from allennlp.predictors import Predictor

from elmo_tasks.language_model.metric import perplexity
from elmo_tasks.pipeline.predictor import TaskPredictor, require_text
from elmo_tasks.pipeline.results import TaskResult


@Predictor.register("elmo_bilm")
class BiLmPredictor(TaskPredictor):
    """
    Predicts the log probability of each word of a sentence in both directions.

    A line is `{"sentence": "..."}`, split at blanks, or by spaCy's rules if the reader reads `running_text`;
    or `{"tokens": [...]}`. Each sentence is read on its own, from an LSTM state of zeros.

    The output is in nats and in the order of the text:

    - `tokens`;
    - `log_probabilities_forward` and `log_probabilities_backward` of each token. A word outside the
      vocabulary gets the probability of the unknown word;
    - `log_probability_end` of the sentence's end after the last word, and `log_probability_begin` of its
      begin before the first word;
    - `perplexity_forward`, `perplexity_backward` and the joint `perplexity`. As in training, the end (the
      begin) counts as a word.
    """

    forms = ({"sentence": str}, {"tokens": list[str]})

    def run(self, instances: list[Instance]) -> list[TaskResult]:
        sentences = [instance.words for instance in instances if isinstance(instance, _Sentence)]
        if len(sentences) < len(instances):
            raise ConfigurationError(
                "a biLM predicts JSON Lines, without --use-dataset-reader; `allennlp evaluate` measures the "
                "perplexity of a text"
            )
        block = self._dataset_reader.text_to_instance(sentences)
        # (2, steps)
        scores = self._model.forward_on_instance(block)["log_probabilities"].astype(np.float64)
        boundaries = np.cumsum([len(words) + 1 for words in sentences])[:-1]
        parts = np.split(scores, boundaries, axis=1)
        return [_result(words, *part) for words, part in zip(sentences, parts, strict=True)]

    def read(self, json_dict: JsonDict) -> list[str]:
        text = require_text(json_dict, "sentence", "tokens")
        return self._dataset_reader.words(text) if isinstance(text, str) else text

    def to_instance(self, content: list[str]) -> Instance:
        return _Sentence(content)


class _Sentence(Instance):
    """A sentence that will be put into a block together with others."""

    def __init__(self, words: list[str]) -> None:
        super().__init__({"tokens": TextField(list(map(Token, words)))})
        self.words = words


@dataclass
class BiLmResult(TaskResult):
    tokens: list[str]
    log_probabilities_forward: list[float]
    log_probabilities_backward: list[float]
    log_probability_end: float
    log_probability_begin: float
    perplexity_forward: float
    perplexity_backward: float
    perplexity: float


def _result(words: list[str], forward: np.ndarray, backward: np.ndarray) -> BiLmResult:
    """*Shape:* log probabilities of each direction, in its reading order, `(words + 1,)`."""
    losses = -forward.mean(), -backward.mean()
    return BiLmResult(
        words,
        forward[:-1].tolist(),
        backward[-2::-1].tolist(),
        float(forward[-1]),
        float(backward[-1]),
        perplexity(losses[0]),
        perplexity(losses[1]),
        perplexity(sum(losses) / 2),
    )
