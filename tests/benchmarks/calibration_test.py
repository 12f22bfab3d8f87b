import json

import numpy as np

from benchmarks.calibration import asked, fitted_weights


def test_questions_are_asked_of_the_next_passage_without_the_answer(tmp_path):
    def paragraph(passage, *answers):
        return {"context": passage, "qas": [{"question": "Who?", "answers": [{"text": a} for a in answers]}]}

    first = [paragraph("Bo sang.", "Bo"), paragraph("The Bo ran.", "Bo", "ran"), paragraph("Ana sat.", "Ana")]
    articles = [{"paragraphs": first}, {"paragraphs": [paragraph("Bo sat.", "Bo")]}]
    file = tmp_path / "squad.json"
    file.write_text(json.dumps({"data": articles}), encoding="utf-8")
    pairs = [(each.article, each.passage, *each.answers, each.tells) for each in asked([str(file)])]
    assert pairs == [
        (0, "Bo sang.", "Bo", True),
        (0, "Ana sat.", "Bo", False),
        (0, "The Bo ran.", "Bo", "ran", True),
        (0, "Ana sat.", "Bo", "ran", False),
        (0, "Ana sat.", "Ana", True),
        (0, "Bo sang.", "Ana", False),
        (1, "Bo sat.", "Bo", True),
    ]


def test_weights_of_known_odds():
    draw = np.random.default_rng(0)
    # (questions, spans, features)
    features = np.concatenate([draw.normal(size=(20_000, 2, 2)), np.ones((20_000, 2, 1))], axis=2)
    weights = np.array([[1.0, -0.5, 0.5], [0.5, 1.0, -1.0]])
    right, tells = (draw.random((20_000, 2)) < 1 / (1 + np.exp(-features @ row)) for row in weights)
    tells = tells[:, 0]
    # No answer is right if the passage does not tell.
    found = fitted_weights(features, right & tells[:, None], tells)
    np.testing.assert_allclose(found, weights, atol=0.1)
