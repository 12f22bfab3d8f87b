"""A part of the training data."""

import random
from collections.abc import Iterator
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.dataset_readers.dataset_reader import DatasetReaderInput, DistributedInfo, WorkerInfo

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import NonNegativeInt, Share
from elmo_tasks.data.reader import TaskReader


@DatasetReader.register("elmo_sample")
class SampleReader(StrictParams, DatasetReader):
    """
    A random part of the instances of another reader, in their order, for training on less data.

    The same seed always draws the same instances, and a smaller fraction is part of a larger one. Each of
    several workers draws from its own share. Archives read with the other reader, so that they evaluate
    and predict all that a file has.

    # Parameters

    reader : reads the whole data.
    fraction : the part to draw, above 0, up to 1.
    seed : seed of the draw.
    rest : read the instances that are not drawn, in place of those that are.
    max_instances : the number of drawn instances to read, the first ones; null for all.

    # Raises
    `ConfigurationError`: an impossible fraction; when reading, a fraction that leaves no instance.
    """

    def __init__(
        self,
        *,
        reader: DatasetReader,
        fraction: Share,
        seed: int,
        rest: bool = False,
        max_instances: Optional[NonNegativeInt] = None,
    ) -> None:
        super().__init__(
            max_instances=max_instances,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
        )
        self.wrapped_reader = reader
        self.fraction = fraction
        self.seed = seed
        self.rest = rest

    def _read(self, file_path: DatasetReaderInput) -> Iterator[Instance]:
        instances = list(self.wrapped_reader.read(file_path))
        order = list(range(len(instances)))
        random.Random(self.seed).shuffle(order)
        size = sample_size(self.fraction, len(instances))
        if self.rest and size == len(instances):
            raise ConfigurationError(
                f"fraction {self.fraction:g} of {size} instances leaves none as the rest"
            )
        drawn = [instances[index] for index in sorted(order[size:] if self.rest else order[:size])]
        if isinstance(self.wrapped_reader, TaskReader):
            self.wrapped_reader.sampled(drawn)
        yield from drawn

    def text_to_instance(self, *inputs: Any, **named_inputs: Any) -> Instance:
        return self.wrapped_reader.text_to_instance(*inputs, **named_inputs)

    def apply_token_indexers(self, instance: Instance) -> None:
        self.wrapped_reader.apply_token_indexers(instance)

    def _set_worker_info(self, info: WorkerInfo | None) -> None:
        super()._set_worker_info(info)
        self.wrapped_reader._set_worker_info(info)

    def _set_distributed_info(self, info: DistributedInfo | None) -> None:
        super()._set_distributed_info(info)
        self.wrapped_reader._set_distributed_info(info)


def unwrapped_block(block: dict[str, Any]) -> dict[str, Any]:
    """Returns the config block of the reader that makes the instances, without `elmo_sample`."""
    return unwrapped_block(block["reader"]) if block.get("type") == "elmo_sample" else block


def sample_size(fraction: float, total: int) -> int:
    """Returns `fraction` of `total` instances, rounded; `ConfigurationError` if that is none."""
    size = round(fraction * total)
    if size == 0:
        raise ConfigurationError(f"fraction {fraction:g} of {total} instances is none, expected 1 or more")
    return size
