import torch

from elmo_tasks.modules.classifier import Classifier


def test_an_ensemble_averages_probabilities():
    torch.manual_seed(0)
    members = [
        {"logits": 5 * torch.randn(3, 4), "attention": torch.rand(3, 2), "mask": torch.ones(3, 2).bool()}
        for _ in range(3)
    ]
    average = Classifier.average(members)
    expected = sum(scores["logits"].softmax(dim=1) for scores in members) / 3
    torch.testing.assert_close(average["logits"].exp(), expected)
    torch.testing.assert_close(average["attention"], sum(scores["attention"] for scores in members) / 3)
    assert torch.equal(average["mask"], members[0]["mask"])
