import pytest
import torch

from elmo_tasks.elmo.inference.trained_lstm import plain_lstm
from elmo_tasks.elmo.inference.training_products import Products
from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.model.lstm import ProjectedLstm
from tests.elmo.files import changed


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_model(dtype):
    """Values and gradients, several times in the same memory."""
    options = BiLmOptions.read(changed(dim=6, projection_dim=6, cell_clip=0, proj_clip=0))
    lstm, products = ProjectedLstm(options=options).to(dtype), Products()
    generator = torch.Generator().manual_seed(13)
    for steps, batch in ((4, 3), (2, 5), (4, 3)):
        shapes = (steps, batch, 6), (batch, 6), (batch, 6)
        inputs, hidden, cell = (
            torch.randn(shape, dtype=dtype, generator=generator).requires_grad_() for shape in shapes
        )
        outputs, *ends = plain_lstm(products, inputs, hidden, cell, lstm.weight, lstm.bias)
        lengths = torch.full((batch,), steps)
        expected, *expected_ends = lstm(inputs.transpose(0, 1), lengths, hidden, cell)
        results = [outputs, *ends], [expected.transpose(0, 1), *expected_ends]
        learned = inputs, hidden, cell, lstm.weight, lstm.bias
        gradients = [
            torch.autograd.grad(sum(part.square().sum() for part in of_one), learned) for of_one in results
        ]
        for pair in (*zip(*results, strict=True), *zip(*gradients, strict=True)):
            torch.testing.assert_close(*pair)
