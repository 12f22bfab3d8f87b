"""Models in processes of their own, on Ray."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import ray
from allennlp.common import JsonDict
from ray import serve

from elmo_tasks.serving.answers import Answer, Answers, Limits
from elmo_tasks.serving.models import Named, ServedModel, open_predictor, served


@serve.deployment
class Replica:
    """One process with a model; Ray makes the batches."""

    def __init__(self, archive: str, limits: Limits, device: int) -> None:
        self._answers = Answers(open_predictor(archive, device), limits)
        batches: Any = self.answer
        batches.set_max_batch_size(limits.batch_size)
        batches.set_batch_wait_timeout_s(limits.batch_wait)

    @serve.batch
    async def answer(self, inputs: list[JsonDict]) -> list[Answer]:
        """Those of a batch, in order."""
        return await asyncio.to_thread(self._answers, inputs)


def start_replicas(
    archives: Mapping[str, Named], limits: Limits, *, replicas: int, address: str | None, device: int = -1
) -> dict[str, ServedModel]:
    """
    Models that answer in processes of a Ray cluster, or of one that is started here for as long as this
    process lives. Ray's own HTTP server stays out of it.

    # Parameters

    archives : by their names; of a cluster of several machines, where each of them finds them.
    replicas : processes for each, of a CPU each and, with `device`, of a GPU each.
    address : of the cluster, as Ray takes it; by default one is started here.
    """
    ray.init(address=address, include_dashboard=None if address else False, ignore_reinit_error=True)
    serve.start(proxy_location="Disabled")
    gpus = int(device >= 0)
    replica: Any = Replica
    models = {}
    for name, (archive, predictor) in archives.items():
        deployment = replica.options(
            num_replicas=replicas,
            max_ongoing_requests=limits.max_queue,
            ray_actor_options={"num_cpus": 1, "num_gpus": gpus},
        )
        # Ray shows each process the GPUs that are its own.
        archive = os.path.abspath(archive) if os.path.exists(archive) else archive
        application = deployment.bind(archive, limits, gpus - 1)
        handle = serve.run(application, name=name, route_prefix=None)
        models[name] = served(predictor, partial(_answer, handle), limits)
    return models


def stop_replicas() -> None:
    """Ends the processes of the models, and a cluster that was started here."""
    serve.shutdown()
    ray.shutdown()


async def _answer(handle: Any, inputs: list[JsonDict]) -> list[Answer]:
    return await asyncio.gather(*(handle.answer.remote(one) for one in inputs))
