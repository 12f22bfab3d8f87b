"""What the workers of a distributed run know together."""

from typing import TypeVar

import torch.distributed as dist
from allennlp.common.util import is_distributed

Value = TypeVar("Value")


def of_all_workers(value: Value) -> list[Value]:
    """The value of each worker, all of which have to call this; in a run of one process just this one."""
    if not is_distributed():
        return [value]
    values = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
