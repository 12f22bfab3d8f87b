"""What the biLM asks of its token layer, whether it reads characters or words."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn


class TokenEncoder(nn.Module):
    """
    Words to vectors that do not depend on their context.

    A word comes as its id, whose shape `*id` is the encoder's own: `(50,)` for characters, `()` for words.

    # Parameters

    bos_eos_ids : the ids of `<S>` and `</S>`, `(2, *id)`, in 64 bits: distributed training broadcasts
    buffers,
        and gloo knows no 16.
    """

    reads: ClassVar[str]
    """The tensor of a batch that holds the ids; with `elmo_` before it, the indexer that makes it."""
    embedding: nn.Parameter
    bos_eos_ids: torch.Tensor

    def __init__(self, *, bos_eos_ids: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("bos_eos_ids", bos_eos_ids.long(), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* words `(words, *id)` to their vectors `(words, projection_dim)`."""
        raise NotImplementedError

    @staticmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        """Where there is a word. *Shape:* `(batch, tokens, *id)` to `(batch, tokens)`."""
        raise NotImplementedError

    @staticmethod
    def padded_ids(sentences: Sequence[Sequence[str]]) -> torch.Tensor:
        """*Shape:* `(sentences, longest, *id)`, 0 behind the end of a sentence."""
        raise NotImplementedError
