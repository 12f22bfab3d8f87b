"""Long passages in overlapping windows, for layers whose memory grows with the square of the tokens."""

import torch
from torch.nn import functional as F


class Windows:
    """
    Windows of `size` tokens, each of which has `overlap` tokens of the one before it. A token counts where it
    has the most context: in the middle of an overlap, the next window takes over.

    The windows of a passage depend on its own length alone, not on those beside it in a batch.

    # Parameters

    mask : of the passages, *shape* `(passages, tokens)`.
    size, overlap : tokens.
    """

    def __init__(self, mask: torch.Tensor, *, size: int, overlap: int) -> None:
        tokens = mask.size(1)
        self.step = size - overlap
        self.number = 1 + max(0, -(-(tokens - size) // self.step))
        self.size = size if self.number > 1 else tokens
        self.padding = overlap + self.step * self.number - tokens if self.number > 1 else 0
        # (passages, 1)
        last = ((mask.sum(dim=1, keepdim=True) - overlap - 1) // self.step).clamp(min=0)
        # (tokens,)
        indices = torch.arange(tokens, device=mask.device)
        # (passages, tokens): the window in which each token counts
        self.of_token = torch.minimum(((indices - overlap // 2) // self.step).clamp(min=0), last)
        # (passages, tokens): the first token of that window
        self.first = self.of_token * self.step
        # (passages, tokens): the token among those of all windows of its passage
        self._rows = self.of_token * self.size + indices - self.first

    def split(self, values: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(passages, tokens, ...)` to `(passages, number, size, ...)`, 0 behind the end."""
        if self.number == 1:
            return values.unsqueeze(1)
        after = values.dim() - 2
        # (passages, padded tokens, ...)
        padded = F.pad(values, (0, 0) * after + (0, self.padding))
        return padded.unfold(1, self.size, self.step).movedim(-1, 2)

    def join(self, values: torch.Tensor, passages: torch.Tensor) -> torch.Tensor:
        """
        The values of each token from the window where it counts; at padding, whatever.

        *Shape:* `(rows, number, size, ...)`, and the passage of each row `(rows,)`, to `(rows, tokens, ...)`.
        """
        if self.number == 1:
            return values.squeeze(1)
        rows = torch.arange(len(values), device=values.device).unsqueeze(1)
        return values.flatten(1, 2)[rows, self._rows[passages]]
