import json
import math

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_tasks.common.files import bundled
from elmo_tasks.language_model.model import words_by_class
from elmo_tasks.language_model.predictor import BiLmPredictor
from elmo_tasks.language_model.reader import BiLmReader
from tests.elmo.files import OPTIONS

SENTENCE = ["Jonas", "Berg", "scored", "zwölfmal", "."]


@pytest.fixture(scope="module")
def predictor() -> BiLmPredictor:
    reader = BiLmReader(streams=2)
    blocks = reader.read(str(bundled("fixtures/language_model/train.txt")))
    vocab = Vocabulary.from_instances(blocks, max_vocab_size={"tokens": 40})
    torch.manual_seed(3)
    params = Params({"type": "elmo_bilm", "options": OPTIONS, "softmax": {"type": "full"}})
    model = Model.from_params(params, vocab=vocab).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return BiLmPredictor(model, reader)


def predict(predictor, *sentences):
    return list(predictor.predict_batch_json([{"tokens": words} for words in sentences]))


def test_probabilities_of_all_words_sum_to_one(predictor):
    """At each position in each direction, with the sentence cut off on the other side."""
    result = predictor.predict_json({"tokens": SENTENCE})
    words = words_by_class(predictor._model.vocab)
    for i in range(len(SENTENCE) + 1):
        before, after = SENTENCE[:i], SENTENCE[i:]
        forward = [
            r["log_probabilities_forward"][i]
            for r in predict(predictor, *([*before, word] for word in words))
        ]
        backward = [
            r["log_probabilities_backward"][0]
            for r in predict(predictor, *([word, *after] for word in words))
        ]
        assert math.fsum(map(math.exp, forward)) == pytest.approx(1, abs=1e-5)
        assert math.fsum(map(math.exp, backward)) == pytest.approx(1, abs=1e-5)
        to_come = [*SENTENCE, "</S>"][i]
        expected = [*result["log_probabilities_forward"], result["log_probability_end"]][i]
        assert forward[number(words, to_come)] == pytest.approx(expected, abs=1e-5)
        gone = ["<S>", *SENTENCE][i]
        expected = [result["log_probability_begin"], *result["log_probabilities_backward"]][i]
        assert backward[number(words, gone)] == pytest.approx(expected, abs=1e-5)


def number(words, word):
    return words.index(word if word in words else "<UNK>")


def test_perplexities_are_those_of_evaluation(predictor):
    result = predictor.predict_json({"sentence": " ".join(SENTENCE)})
    assert json.loads(json.dumps(result)) == result
    assert result["tokens"] == SENTENCE
    model = predictor._model
    model.get_metrics(reset=True)
    model.forward_on_instance(predictor._dataset_reader.text_to_instance([SENTENCE]))
    for name, value in model.get_metrics(reset=True).items():
        if name.startswith("perplexity"):
            assert result[name] == pytest.approx(value, rel=1e-6)


def test_a_sentence_has_one_result_alone_and_in_a_batch(predictor):
    sentences = [SENTENCE, [], ["."], SENTENCE * 20]
    together = predict(predictor, *sentences)
    for words, result in zip(sentences, together, strict=True):
        (alone,) = predict(predictor, words)
        assert len(result["log_probabilities_backward"]) == len(words)
        assert result.keys() == alone.keys()
        for key in alone:
            assert result[key] == (words if key == "tokens" else pytest.approx(alone[key], rel=1e-5))


def test_running_text_is_tokenised(predictor):
    running = BiLmPredictor(predictor._model, BiLmReader(running_text=True))
    text = "Norway won.  Portugal didn't!"
    assert running.predict(text)["tokens"] == ["Norway", "won", ".", "Portugal", "did", "n't", "!"]
    assert predictor.predict(text)["tokens"] == ["Norway", "won.", "Portugal", "didn't!"]


def test_blocks_of_a_text_are_no_sentences(predictor):
    block = next(iter(predictor._dataset_reader.read(str(bundled("fixtures/language_model/dev.txt")))))
    with pytest.raises(ConfigurationError, match="--use-dataset-reader"):
        predictor.predict_instance(block)
