import torch
from allennlp.common import Params
from allennlp.training.optimizers import Optimizer


def trained(kind: str, **options) -> torch.Tensor:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(5, 4))
    optimizer = Optimizer.from_params(
        Params({"type": kind, "lr": 0.1, **options}), model_parameters=[("weight", weight)]
    )
    for step in range(5):
        optimizer.zero_grad()
        (weight.sin().sum() * (step + 1)).backward()
        optimizer.step()
    return weight.detach()


def test_same_steps_as_allennlps_adam():
    torch.testing.assert_close(trained("elmo_adam"), trained("adam"))
    torch.testing.assert_close(trained("elmo_adam", amsgrad=True), trained("adam", amsgrad=True))
