"""What the biLM asks of its token layer, whether it reads characters or words."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn

from elmo_tasks.elmo.linear import Linear


class TokenEncoder(nn.Module):
    """
    Words to vectors that do not depend on their context.

    A word comes as its id, whose shape `*id` is the encoder's own: `(50,)` for characters, `()` for words.

    # Parameters

    borders : the ids of `<S>` and `</S>`, `(2, *id)`, in 64 bits: distributed training broadcasts buffers,
        and gloo knows no 16.
    """

    reads: ClassVar[str]
    """The tensor of a batch that holds the ids; with `elmo_` before it, the indexer that makes it."""
    embedding: nn.Parameter
    borders: torch.Tensor

    def __init__(self, *, borders: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("borders", borders.long(), persistent=False)

    def forward(self, ids: torch.Tensor, linear: Linear) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(words, *id)` to the vectors of the distinct words, `(distinct words, projection_dim)`, and
        for each word its place among them, `(words,)`.
        """
        raise NotImplementedError

    def present(self, ids: torch.Tensor) -> torch.Tensor:
        """Where there is a word. *Shape:* `(batch, tokens, *id)` to `(batch, tokens)`."""
        raise NotImplementedError

    def padded_ids(self, sentences: Sequence[Sequence[str]]) -> torch.Tensor:
        """*Shape:* `(sentences, longest, *id)`, 0 behind the end of a sentence."""
        raise NotImplementedError
