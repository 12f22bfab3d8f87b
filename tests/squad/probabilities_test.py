import math

import pytest
import torch

from elmo_tasks.data.tokenization import Words
from elmo_tasks.squad.probabilities import span_features
from elmo_tasks.squad.reader import SquadQuestion
from tests.pipeline.archives import predictor_of

PASSAGE = "Anna bought a brown horse in Oslo. She rode it home to her farm."
QUESTION = "How much did the horse cost?"


def words(text):
    return Words(text, text.split(), [])


def test_features_by_hand():
    passage = words("the horse " + "and " * 30 + "the costs of it")
    question = SquadQuestion(passage, words("What did it cost then"))
    best = torch.tensor([[-1.0, -1.5, -3.0, -math.inf], [-0.5, -4.0, -5.0, -math.inf]])
    indices = torch.tensor([[[32, 33], [33, 35], [1, 1], [0, 0]], [[2, 4], [1, 2], [4, 9], [0, 0]]])
    features = span_features(best, indices, torch.tensor([7.0, 8.0]), [question] * 2)
    least = math.log(1e-9)
    # "cost" of "What", "cost" and "then" is among the words that are near the first best span alone
    expected = [
        [[score, margin, -1 + 3, 7, 1 / 3, 1] for score, margin in ((-1, 0.5), (-1.5, -0.5), (-3, -2))],
        [[score, margin, -0.5 - least, 8, 0, 1] for score, margin in ((-0.5, 3.5), (-4, -3.5), (-5, -4.5))],
    ]
    torch.testing.assert_close(features[:, :3], torch.tensor(expected))


@pytest.fixture(scope="module")
def predictors():
    """Predictors of a model without weights of the probabilities, and with such in its state dict."""
    plain, fitted = predictor_of("squad"), predictor_of("squad")
    weights = torch.tensor([[0.5, 0.25, 0.0, 0.0, 0.5, -0.75], [0.0, 0.0, 0.0, 0.0, 1.0, -1.0]])
    fitted._model.load_state_dict(plain._model.state_dict() | {"probabilities.weights": weights})
    return plain, fitted


def test_weights_change_probabilities_alone(predictors):
    plain, fitted = (each.predict(PASSAGE, QUESTION) for each in predictors)
    scores = [math.log(answer["probability"]) for answer in plain["n_best"]]
    margins = [scores[0] - scores[1], *(score - scores[0] for score in scores[1:])]
    near = 1 / 3  # "horse" of "much", "horse" and "cost"
    for answer, expected, score, margin in zip(
        fitted["n_best"], plain["n_best"], scores, margins, strict=True
    ):
        odds = 0.5 * score + 0.25 * margin + 0.5 * near - 0.75
        assert answer == {**expected, "probability": pytest.approx(1 / (1 + math.exp(-odds)), abs=1e-5)}
    assert fitted["answer"] == plain["answer"]
    assert plain["answerable"] is None
    assert fitted["answerable"] == pytest.approx(1 / (1 + math.exp(1 - near)), abs=1e-5)


def test_the_bound_is_for_an_answer_that_the_passage_tells(predictors, monkeypatch):
    _, fitted = predictors
    every = fitted.predict(PASSAGE, QUESTION)
    product = every["probability"] * every["answerable"]
    for bound, answer in ((product - 1e-4, every["answer"]), (product + 1e-4, "")):
        monkeypatch.setattr(fitted, "min_probability", bound)
        assert fitted.predict(PASSAGE, QUESTION)["answer"] == answer
