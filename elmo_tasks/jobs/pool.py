"""
Workers on Ray: a pool of actors, each of one thread, which take shard after shard.

It is Ray Data that runs it: the shards are the data set, each of them a block that an actor maps. So Ray's
retries are the recovery: where a worker is killed, its actor starts again and does its shard anew; and since
a shard's files are renamed when they are whole, nothing is there twice and nothing is lost. Results go to
the disk; only a few counts travel through Ray.
"""

import json
import logging
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import ray
import ray.data
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.processes import cpu_count, peak_memory
from elmo_tasks.common.ray_cluster import connected
from elmo_tasks.jobs.shards import Shard

RETRIES = 4
"""A shard at which so many workers and one more die ends the run: it is more than the machine can do."""

EXPECTED = (ElmoError, OSError)
"""The errors that end a run, and are no fault of the program."""

Outcome = dict[str, Any]
"""Of a shard: its number, counts; or the error that ended it."""
Work = Callable[[Shard], Outcome]


class Engine(NamedTuple):
    """What the user says of Ray."""

    workers: int | None = None
    """By default one for each processor."""
    address: str | None = None
    """Of a cluster; by default a Ray of this process alone."""
    shard_bytes: int | None = None


@contextmanager
def cluster(engine: Engine, *, shared_bytes: int) -> Iterator[int]:
    """
    Ray, and the number of workers on it.

    # Raises
    `ConnectionError`: see `connected`.
    """
    cpus = engine.workers or cpu_count()
    with connected(engine.address, cpus=cpus, shared_bytes=shared_bytes):
        yield engine.workers or int(ray.cluster_resources().get("CPU", 1))


def outcomes(
    make_work: Callable[[Any], Work], shared: Any, shards: Sequence[Shard], *, workers: int, gpus: int = 0
) -> Generator[Outcome, None, None]:
    """
    The outcome of each shard, as they come; when it is closed before the last one, the workers end.

    # Parameters

    make_work : called once a worker, with `shared`; it returns what does a shard.
    shared : through the object store: once a node, its arrays without a copy.
    workers : each of one thread; fewer, if there are fewer shards.
    gpus : of a worker.

    # Raises
    `ElmoError`: see `RETRIES`.
    """
    if not shards:
        return
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    reference = ray.put(shared)
    plan = [{"shard": json.dumps(shard)} for shard in shards]
    data = ray.data.from_items(plan, override_num_blocks=len(plan))
    with warnings.catch_warnings():
        # The one way to bound the retries, which Ray 2.64 will have no more; requirements.in holds it back.
        warnings.simplefilter("ignore", DeprecationWarning)
        work = data.map_batches(
            _Worker,
            # In a list it stays a reference, which the worker takes from its own node.
            fn_constructor_args=(make_work, [reference]),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(
                size=min(workers, len(shards)), max_tasks_in_flight_per_actor=2
            ),
            num_cpus=1,
            num_gpus=gpus,
            ray_remote_args_fn=lambda: {"max_task_retries": RETRIES, "max_restarts": -1},
        )
    try:
        for block in work.iter_batches(batch_size=None, prefetch_batches=0):
            yield from map(json.loads, block["outcome"])
    except ray.exceptions.RayActorError as error:
        raise ElmoError(
            f"{RETRIES + 1} workers died one after another at the same shard, the last so: {error}"
        ) from error


class _Worker:
    """An actor."""

    def __init__(self, make_work: Callable[[Any], Work], references: list[Any]) -> None:
        torch.set_num_threads(1)
        self._work: Work | None = None
        try:
            self._work = make_work(ray.get(references[0]))
        except EXPECTED as error:
            # Of an actor that cannot start, Ray would start one after another.
            self._error = str(error)

    def __call__(self, block: dict[str, Any]) -> dict[str, list[str]]:
        return {"outcome": [json.dumps(self._outcome(Shard(*json.loads(line)))) for line in block["shard"]]}

    def _outcome(self, shard: Shard) -> Outcome:
        began, processor = time.monotonic(), time.process_time()
        if self._work is None:
            return {"number": shard.number, "error": self._error}
        try:
            outcome = self._work(shard)
        except EXPECTED as error:
            outcome = {"error": str(error)}
        return outcome | {
            "number": shard.number,
            "ended": time.time(),
            "seconds": time.monotonic() - began,
            "processor_seconds": time.process_time() - processor,
            "peak_memory": peak_memory(),
        }
