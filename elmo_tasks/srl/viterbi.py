"""The best IOB2 sequence under scores of single tags."""

from collections.abc import Sequence

import torch
from torch import nn

from elmo_tasks.data.tag_schemes import Scheme, allowed_transitions


class Iob2Viterbi(nn.Module):
    """
    A decoder that finds the tags with the highest sum of scores among the sequences that IOB2 allows (Viterbi
    1967): none starts with I-X, and only B-X and I-X come before I-X. So a step looks at the best of all
    tags, and for I-X at two more, for all sentences of a batch at once, in time that grows with the number of
    tags and not of their pairs.

    # Parameters

    tags : the IOB2 tags in the order of their ids, each I-X with its B-X.

    # Raises
    `TagError`: a tag that is not IOB2. `ValueError`: an I-X without its B-X.
    """

    starts: torch.Tensor
    opening: torch.Tensor

    def __init__(self, tags: Sequence[str]) -> None:
        super().__init__()
        # (tags,): whether the tag may start a sentence; all but I-X may
        self.register_buffer("starts", allowed_transitions(tags, Scheme.IOB2).start, persistent=False)
        ids = {tag: i for i, tag in enumerate(tags)}
        missing = [tag for tag in tags if tag[0] == "I" and f"B{tag[1:]}" not in ids]
        if missing:
            raise ValueError(f"found the tags {', '.join(missing)}, expected also each with B-")
        # (tags,): B-X for I-X, else the tag itself
        opening = [ids[f"B{tag[1:]}"] if tag[0] == "I" else i for i, tag in enumerate(tags)]
        self.register_buffer("opening", torch.tensor(opening), persistent=False)

    @torch.no_grad()
    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens, tags)`, `(batch, tokens)` to ids `(batch, tokens)`, 0 at padding."""
        itself = torch.arange(len(self.starts), device=scores.device)
        # (batch, tags): the score of the best sequence that ends with a tag
        best = scores[:, 0].masked_fill(~self.starts, -torch.inf)
        # (batch, tags) of each step: the tag before
        backpointers = []
        for step, real in zip(scores.unbind(1)[1:], mask.unsqueeze(2).unbind(1)[1:], strict=True):
            highest, before = best.max(dim=1, keepdim=True)
            opened = best[:, self.opening]
            before = before.where(self.starts, itself.where(best >= opened, self.opening))
            backpointers.append(before.where(real, itself))
            best = (highest.where(self.starts, torch.maximum(best, opened)) + step).where(real, best)
        # (batch, 1)
        tags = [best.argmax(dim=1, keepdim=True)]
        for backpointer in reversed(backpointers):
            tags.append(backpointer.gather(1, tags[-1]))
        return torch.cat(tags[::-1], dim=1) * mask
