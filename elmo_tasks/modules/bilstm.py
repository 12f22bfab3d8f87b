"""Stacked bidirectional LSTM and GRU layers with variational dropout: the context encoders of the tasks."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from allennlp.modules import InputVariationalDropout
from allennlp.nn import Initializer
from torch import nn

from elmo_tasks.common.strict_params import StrictParams


class BiLstm(nn.Module):
    """
    A bidirectional LSTM over padded batches. Each direction is a fused LSTM of PyTorch; the backward one
    reads each sequence reversed, with the padding still at its end. The result equals that of packed
    sequences, and takes less time on batches of similar length.

    # Parameters

    input_dim : size of an input vector.
    hidden_sizes : units of each layer, for each direction.
    dropout : probability, on the output of each layer; one mask for all steps of a sequence (Gal and
        Ghahramani 2016, arXiv:1512.05287).
    input_dropout : the same on the input of the first layer; `None`: as `dropout`.
    """

    cell: ClassVar[type[nn.LSTM] | type[nn.GRU]] = nn.LSTM

    def __init__(
        self,
        *,
        input_dim: int,
        hidden_sizes: Sequence[int],
        dropout: float,
        input_dropout: float | None = None,
    ) -> None:
        super().__init__()
        sizes = [input_dim, *(2 * hidden for hidden in hidden_sizes)]
        shapes = list(zip(sizes, hidden_sizes, strict=False))
        self.forward_layers = nn.ModuleList(self.cell(size, hidden) for size, hidden in shapes)
        self.backward_layers = nn.ModuleList(self.cell(size, hidden) for size, hidden in shapes)
        self.input_dropout = InputVariationalDropout(dropout if input_dropout is None else input_dropout)
        self.dropout = InputVariationalDropout(dropout)
        self.output_dim = sizes[-1]

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* `(batch, tokens, input_dim)` and the mask `(batch, tokens)` to `(batch, tokens, output_dim)`,
        0 at padding.
        """
        reverse = _reversed_steps(mask)
        outputs = self.input_dropout(inputs)
        for forward_layer, backward_layer in zip(self.forward_layers, self.backward_layers, strict=True):
            # (tokens, batch, input)
            steps = outputs.transpose(0, 1)
            read_forward, _ = forward_layer(steps)
            read_backward, _ = backward_layer(_take(steps, reverse))
            outputs = torch.cat([read_forward, _take(read_backward, reverse)], dim=2).transpose(0, 1)
            outputs = self.dropout(outputs)
        return outputs * mask.unsqueeze(2)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Renames the layers of archives that have their former names; PyTorch calls it."""
        for old, new in (("onward.", "forward_layers."), ("back.", "backward_layers.")):
            for key in [key for key in state_dict if key.startswith(prefix + old)]:
                state_dict[prefix + new + key.removeprefix(prefix + old)] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)


class BiGru(BiLstm):
    """See `BiLstm`; the recurrent unit is that of Cho et al. 2014, arXiv:1406.1078, as in cuDNN."""

    cell = nn.GRU


def _reversed_steps(mask: torch.Tensor) -> torch.Tensor:
    """
    Returns for each row of flattened `(tokens, batch)` the row that takes its place when the real steps are
    reversed and padding stays.

    *Shape:* `(batch, tokens)` to `(tokens * batch,)`.
    """
    batch, tokens = mask.shape
    lengths = mask.sum(dim=1)
    steps = torch.arange(tokens, device=mask.device).unsqueeze(1)
    sources = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return (sources * batch + torch.arange(batch, device=mask.device)).flatten()


def _take(steps: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(tokens, batch, dim)`, `(tokens * batch,)` to `(tokens, batch, dim)`."""
    return steps.flatten(0, 1).index_select(0, rows).view_as(steps)


@Initializer.register("elmo_orthogonal_gates")
class OrthogonalGates(StrictParams, Initializer):
    """
    Fills the matrix of each gate of an LSTM with an orthogonal one (Saxe et al. 2014, arXiv:1312.6120).
    AllenNLP's `orthogonal` treats all gates as one matrix; its `block_orthogonal` has to be told the sizes.
    """

    def __init__(self) -> None:
        super().__init__()

    def __call__(self, tensor: torch.Tensor, **kwargs: Any) -> None:
        """*Shape:* `(4 * hidden, size)`."""
        for gate in tensor.data.chunk(4):
            nn.init.orthogonal_(gate)
