"""
Where the shards of a run are done: in this process, in forks of it, or by workers on Ray.

Forks have one thread each, and share the weights of this process: two threads of one Python wait for its
lock, two processes do not.

On Ray, a pool of actors of one thread each takes shard after shard. Ray Data runs it: the shards are the data
set, and each is a block that an actor maps. Ray restarts a worker that was killed, and repeats its shard. The
files of a shard are renamed when they are complete: nothing is written twice, and nothing is lost. Results go
to the disk; only a few counts travel through Ray.
"""

import json
import logging
import multiprocessing
import signal
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import cpu_count, end_with_parent, peak_memory
from elmo_tasks.common.progress import input_progress
from elmo_tasks.jobs.runs import (
    Content,
    Outcome,
    Reading,
    Run,
    Settings,
    Shard,
    ShardReader,
    open_run,
)
from elmo_tasks.jobs.sinks import Sink

RETRIES = 4
"""The retries of a shard on Ray. The run fails once RETRIES + 1 workers have died on one shard."""

ERRORS_OF_USERS = (ElmoError, OSError)
"""The errors that end a run without a traceback."""


@dataclass(kw_only=True)
class Job(ABC):
    """The work on each shard. Ray pickles it, and the workers of a node share its arrays and bytes."""

    reading: Reading
    sink: Sink

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The bytes that are shared."""

    @property
    @abstractmethod
    def on_gpu(self) -> bool:
        """True if each worker needs a GPU."""

    @abstractmethod
    def open(self) -> None:
        """Opens, where the shards are done, what they need."""

    @abstractmethod
    def __call__(self, shard: Shard, contents: list[Content]) -> Outcome:
        """Does a shard."""


def run_job(
    job: Job,
    engine: "LocalEngine | ForkEngine | RayEngine",
    *,
    name: str,
    sources: Sequence[str],
    settings: Settings,
    shard_bytes: int | None = None,
) -> Run:
    """
    Opens the run in the folder of the job's sink, see `open_run`, and does the shards that are left, with
    `name` at the bar. By default the size of a shard gives every worker several. An `ElmoError` of the input
    is its first one.
    """
    with engine.start(job) as workers:
        folder, reading = job.sink.folder, job.reading
        run = open_run(folder, sources, settings, reading=reading, shard_bytes=shard_bytes, workers=workers)
        with run.noting_how_to_resume():
            error = first_error(run, engine.outcomes(job, run, workers), name)
    if error is not None:
        job.sink.end_at(run, error["number"])
        problem = ElmoError(error["error"])
        problem.add_note("fix this, then run the same command with --resume")
        raise problem
    with run.noting_how_to_resume():
        job.sink.finish(run)
    return run


def first_error(run: Run, outcomes: Generator[Outcome, None, None], name: str) -> Outcome | None:
    """
    Takes the outcomes of shards as they come, with a bar: of all, or of those before the first error, which
    it returns. The outcomes are closed before their engine ends.
    """
    first: Outcome | None = None
    with closing(outcomes), input_progress(name, run.size) as bar:
        for outcome in outcomes:
            number = outcome["number"]
            if "error" not in outcome:
                run.add(outcome)
                bar.update(run.position - bar.n)
            elif first is None or number < first["number"]:
                first = outcome
            if first is not None and all(number in run.done for number in range(first["number"])):
                break
    return first


class LocalEngine:
    """The engine that works in this process."""

    @contextmanager
    def start(self, job: Job) -> Iterator[int]:
        """Opens the job; yields the number of workers."""
        job.open()
        yield 1

    def outcomes(self, job: Job, run: Run, workers: int) -> Generator[Outcome, None, None]:
        """Yields the outcome of each shard that is left, as it is read."""
        run.write_plan()
        for piece in run.remaining():
            yield job(piece.shard, piece.contents)


CAN_FORK = sys.platform == "linux"
"""False on macOS, whose libraries do not survive a fork, and on Windows, which has none."""


@dataclass(frozen=True)
class ForkEngine:
    """Forks of this process with one thread each, which share what the job has opened."""

    workers: int

    @contextmanager
    def start(self, job: Job) -> Iterator[int]:
        """Opens the job; yields the number of workers."""
        job.open()
        yield self.workers

    def outcomes(self, job: Job, run: Run, workers: int) -> Generator[Outcome, None, None]:
        """
        Yields the outcome of each shard that is left, as it comes. The forks read its content again, and end
        when the generator is closed, or with this process.
        """
        run.write_plan()
        forks = multiprocessing.get_context("fork")
        earlier_children = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(workers, forks, initializer=_begin_fork, initargs=(job,))
        waiting: set[Future[Outcome]] = set()
        try:
            for piece in run.remaining():
                with warnings.catch_warnings():
                    # Python warns of threads; a fork needs none of them.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    waiting.add(pool.submit(_outcome_in_fork, piece.shard))
                yield from _results(waiting, left=2 * workers)
            yield from _results(waiting, left=0)
        except BrokenProcessPool as error:
            remedy = "if the memory is full, OMP_NUM_THREADS=1 takes one process"
            raise ElmoError("a process of this run was killed", remedy=remedy) from error
        finally:
            for process in set(multiprocessing.active_children()) - earlier_children:
                # SIGTERM may come before a fork has its own handler for it.
                process.kill()
            pool.shutdown(cancel_futures=True)


def _results(waiting: set[Future[Outcome]], *, left: int) -> Iterator[Outcome]:
    """Yields the outcomes as they come, and removes their futures, until at most `left` are waiting."""
    while len(waiting) > left:
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            waiting.remove(future)
            yield future.result()


def _begin_fork(job: Job) -> None:
    global _worker_of_fork
    # Ctrl-C is for the process that has made the forks, and ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    _worker_of_fork = _Worker(job)


def _outcome_in_fork(shard: Shard) -> Outcome:
    return _worker_of_fork.outcome(shard)


@dataclass(frozen=True)
class RayEngine:
    """Workers on Ray: by default one for each processor, on a Ray of this process alone."""

    workers: int | None = None
    address: str | None = None

    @contextmanager
    def start(self, job: Job) -> Iterator[int]:
        """Starts Ray, or connects to it; yields the number of workers."""
        from elmo_tasks.common.ray_cluster import connected, ray

        with connected(self.address, cpus=self.workers or cpu_count(), shared_bytes=job.nbytes):
            yield self.workers or int(ray.cluster_resources().get("CPU", 1))

    def outcomes(self, job: Job, run: Run, workers: int) -> Generator[Outcome, None, None]:
        """
        Yields the outcome of each shard that is left, as it comes. The shards are made first, and their
        contents are read again by the workers, which end when the generator is closed.
        """
        plan = [{"shard": json.dumps(piece.shard)} for piece in run.remaining()]
        run.write_plan()
        if not plan:
            return
        import ray.data

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        # Ray would log an error that is raised here, and SIGTERM as a fault of its own.
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        data = ray.data.from_items(plan, override_num_blocks=len(plan))
        with warnings.catch_warnings():
            # The one way to bound the retries. Ray 2.64 drops it, and requirements/direct.in holds Ray back.
            warnings.simplefilter("ignore", DeprecationWarning)
            work = data.map_batches(
                _RayWorker,
                # In a list the job stays a reference, which the worker takes from its own node.
                fn_constructor_args=([ray.put(job)],),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(
                    size=min(workers, len(plan)), max_tasks_in_flight_per_actor=2
                ),
                num_cpus=1,
                num_gpus=int(job.on_gpu),
                ray_remote_args_fn=lambda: {"max_task_retries": RETRIES, "max_restarts": -1},
            )
        try:
            for block in work.iter_batches(batch_size=None, prefetch_batches=0):
                yield from map(json.loads, block["outcome"])
        except ray.exceptions.RayActorError as error:
            raise ElmoError(
                f"{RETRIES + 1} workers died one after another at the same shard; the last error: {error}"
            ) from error


class _Worker:
    """A process of one thread, which does shard after shard."""

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(1)
        self._job = job
        self._reader = ShardReader(job.reading)

    def outcome(self, shard: Shard) -> Outcome:
        try:
            return self._job(shard, self._reader.lines(shard))
        except ERRORS_OF_USERS as error:
            return {"number": shard.number, "error": str(error)}


class _RayWorker(_Worker):
    def __init__(self, references: list[Any]) -> None:
        import ray

        super().__init__(ray.get(references[0]))
        self._error = None
        try:
            self._job.open()
        except ERRORS_OF_USERS as error:
            # Ray would replace an actor that cannot start by another one, and so on.
            self._error = str(error)

    def __call__(self, block: dict[str, Any]) -> dict[str, list[str]]:
        return {"outcome": [json.dumps(self._timed(Shard(*json.loads(line)))) for line in block["shard"]]}

    def _timed(self, shard: Shard) -> Outcome:
        if self._error is not None:
            return {"number": shard.number, "error": self._error}
        began, processor = time.monotonic(), time.process_time()
        return self.outcome(shard) | {
            "ended": time.time(),
            "seconds": time.monotonic() - began,
            "processor_seconds": time.process_time() - processor,
            "peak_memory": peak_memory(),
        }


_worker_of_fork: _Worker
