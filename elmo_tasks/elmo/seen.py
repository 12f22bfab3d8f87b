"""Whether tensors are what they were."""

from collections.abc import Sequence

import torch


class Seen:
    """
    Tensors as they were: which, and how often PyTorch had written to each. It does not count what is written
    through `parameter.data`, nor to tensors made in inference mode.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        # Kept, so that no other tensor can come to lie at the address of one.
        self._kept = [tensor.detach() for tensor in tensors]
        self._state = _state(tensors)

    def are(self, tensors: Sequence[torch.Tensor]) -> bool:
        return self._state == _state(tensors)


def _state(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    return [(tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]
