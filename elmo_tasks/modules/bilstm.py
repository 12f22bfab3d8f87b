"""A stack of bidirectional LSTM layers with variational dropout: the context encoder of several tasks."""

from collections.abc import Sequence

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import InputVariationalDropout
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BiLstm(nn.Module):
    """
    # Parameters

    input_dim : size of an input vector.
    hidden_sizes : units of each layer, for each direction.
    dropout : probability, on the input of each layer and on the last output; one mask for all steps of a
        sequence (Gal and Ghahramani 2016, arXiv:1512.05287).
    """

    def __init__(self, *, input_dim: int, hidden_sizes: Sequence[int], dropout: float) -> None:
        super().__init__()
        if not hidden_sizes or min(hidden_sizes) < 1:
            raise ConfigurationError(f"hidden_sizes is {hidden_sizes}, expected positive numbers")
        sizes = [input_dim, *(2 * size for size in hidden_sizes)]
        self.layers = nn.ModuleList(
            nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
            for size, hidden in zip(sizes, hidden_sizes, strict=False)
        )
        self.dropout = InputVariationalDropout(dropout)
        self.output_dim = sizes[-1]

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* `(batch, tokens, input_dim)`, `(batch, tokens)` to `(batch, tokens, output_dim)`, zero where
        the mask is.
        """
        # A sequence of no tokens runs as one of one token, whose output is not used.
        lengths = mask.sum(dim=1).clamp(min=1).cpu()
        outputs = inputs
        for lstm in self.layers:
            packed = pack_padded_sequence(
                self.dropout(outputs), lengths, batch_first=True, enforce_sorted=False
            )
            outputs, _ = pad_packed_sequence(
                lstm(packed)[0], batch_first=True, total_length=inputs.size(1)
            )
        return self.dropout(outputs) * mask.unsqueeze(2)
