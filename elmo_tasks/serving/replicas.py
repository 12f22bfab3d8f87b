"""Models in processes of their own, on Ray Serve."""

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ray import serve

from elmo_tasks.common.ray_cluster import connected
from elmo_tasks.serving.answers import Answers, Limits, Query, Reply
from elmo_tasks.serving.models import OpenedArchive, ServedModel, open_predictor, served

_LOGGING = {"log_level": "WARNING", "enable_access_log": False}


@serve.deployment
class Replica:
    """A process with a model. Ray joins queries into batches."""

    def __init__(self, archive: str, limits: Limits, device: int, min_probability: float) -> None:
        self._answers = Answers(open_predictor(archive, device, min_probability), limits)
        batches: Any = self.answer
        batches.set_max_batch_size(limits.batch_size)
        batches.set_batch_wait_timeout_s(limits.batch_wait)

    @serve.batch
    async def answer(self, queries: list[Query]) -> list[Reply]:
        return await asyncio.to_thread(self._answers, queries)


@contextmanager
def replicated(
    archives: Mapping[str, OpenedArchive],
    limits: Limits,
    *,
    owner: str,
    replicas: int,
    address: str | None,
    device: int = -1,
) -> Iterator[dict[str, ServedModel]]:
    """
    Runs models in processes of a Ray cluster, or of one that is started here, until the context ends. Other
    applications on the cluster are left alone. Ray's own HTTP server is not used.

    Every machine must find the paths of the archives. No other service on the cluster has the name `owner`;
    the remains of a killed one are replaced. A process has one CPU, and one GPU if `device` is one.
    """
    with connected(address, cpus=replicas * len(archives), logs=True):
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        serve.start(proxy_location="Disabled", logging_config=_LOGGING)
        gpus = int(device >= 0)
        deployment: Any = Replica
        replica = deployment.options(
            num_replicas=replicas,
            max_ongoing_requests=limits.max_queue,
            ray_actor_options={"num_cpus": 1, "num_gpus": gpus},
            logging_config=_LOGGING,
        )
        applications, models = [], {}
        try:
            for name, (archive, predictor) in archives.items():
                # Ray shows each process only its own GPUs.
                archive = os.path.abspath(archive) if os.path.exists(archive) else archive
                applications.append(f"{name}-{owner}")
                handle = serve.run(
                    replica.bind(archive, limits, gpus - 1, predictor.min_probability),
                    name=applications[-1],
                    route_prefix=None,
                )
                models[name] = served(predictor, partial(_answer, handle), limits)
            yield models
        finally:
            for application in applications:
                serve.delete(application)


async def _answer(handle: Any, queries: list[Query]) -> list[Reply]:
    return await asyncio.gather(*map(handle.answer.remote, queries))
