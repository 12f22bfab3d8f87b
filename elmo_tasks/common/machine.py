"""Processors, devices, memory, threads and forks; an end with the parent."""

import argparse
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import RLock, Thread, local
from typing import Any, TypeVar

import torch

from elmo_tasks.common.errors import ElmoError, errors_as

Returned = TypeVar("Returned")


CACHES_LOCK = RLock()
"""
The one lock of caches, weights and `ChangeWhileUsed`, so that threads need no order of locks. It is held for
a short time, and while weights are packed or hashed, which takes a second or two at the original size. A fork
waits for it: otherwise a child could wait for a thread that it does not have.
"""


def limit_forks_to_one_thread() -> None:
    """
    Gives PyTorch one thread in each later fork of this process: a fork lacks the threads that have computed
    here, and would wait for them for ever.
    """
    global _forks_have_one_thread
    _forks_have_one_thread = True


_forks_have_one_thread = False


def _after_fork_in_child() -> None:
    CACHES_LOCK.release()
    if _forks_have_one_thread:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(
        before=CACHES_LOCK.acquire, after_in_parent=CACHES_LOCK.release, after_in_child=_after_fork_in_child
    )


class ChangeWhileUsed:
    """
    A change of the whole process that lasts as long as any thread needs it: the first one to enter the
    context calls `make`, and the last one to leave it calls what `make` has returned.
    """

    def __init__(self, make: Callable[[], Callable[[], object]]) -> None:
        self._make, self._users = make, 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with CACHES_LOCK:
            self._users += 1
            if self._users == 1:
                self._undo = self._make()
        try:
            yield
        finally:
            with CACHES_LOCK:
                self._users -= 1
                if not self._users:
                    self._undo()


# Two threads for operations that are each too small to be worth many

_of_thread = local()


def num_threads() -> int:
    return getattr(_of_thread, "threads", None) or torch.get_num_threads()


@contextmanager
def single_threaded() -> Iterator[None]:
    """
    Gives each operation of this thread one thread: small operations lose more time to threads that wake than
    these save. `run_in_two_threads` still has all. For programs of our own: a thread that is first used
    inside the block stays single-threaded.
    """
    _of_thread.threads = threads = num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _of_thread.threads = None


def run_in_two_threads(run: Callable[[int, int], Returned]) -> list[Returned]:
    """
    Calls a function with 0 and with 1 and the number of threads that its operations have: together in two
    threads that share the caller's threads, or one after the other if it has one.
    """
    threads = num_threads()
    if threads == 1:
        return [run(0, 1), run(1, 1)]
    workers = _workers(threads, os.getpid())
    return _results([(tasks, partial(run, index, share)) for index, (share, tasks) in enumerate(workers)])


def run_single_threaded(run: Callable[[], Returned]) -> Returned:
    """Calls a function whose operations have one thread each, in another thread if need be."""
    if torch.get_num_threads() == 1:
        return run()
    # Two workers that share two threads have one each.
    (_, tasks), _ = _workers(2, os.getpid())
    return _results([(tasks, run)])[0]


# Simple queues, since a thread that waits for a `Future` wakes later.
Outcomes = SimpleQueue[tuple[int, Any]]
"""The index of each task, and its result or error."""
Tasks = SimpleQueue[tuple[Outcomes, int, Callable[[], Any]]]

_tasks_by_threads: dict[tuple[int, int], list[tuple[int, Tasks]]] = {}


def _workers(threads: int, process: int) -> list[tuple[int, Tasks]]:
    """Returns the tasks of two threads of this process (a fork has none), each with its number of threads."""
    key = threads, process
    if (workers := _tasks_by_threads.get(key)) is not None:
        return workers
    with CACHES_LOCK:
        if key not in _tasks_by_threads:
            if threads > 2:
                # `run_single_threaded` needs them in those workers, which must not make them: new threads
                # would begin with the number of threads of the worker.
                _workers(2, process)
            before = torch.get_num_threads()
            workers = [(share, SimpleQueue()) for share in (threads - threads // 2, threads // 2)]
            for share, tasks in workers:
                ready: Outcomes = SimpleQueue()
                tasks.put((ready, 0, partial(_set_threads, share)))
                # Unlike a pool's, it serves threads that outlive the main one.
                Thread(target=_work, args=(tasks,), name="elmo", daemon=True).start()
                ready.get()
            # New threads begin with the number that was set last.
            torch.set_num_threads(before)
            _tasks_by_threads[key] = workers
        return _tasks_by_threads[key]


def _results(calls: list[tuple[Tasks, Callable[[], Any]]]) -> list[Any]:
    try:
        results = _outcomes(calls)
    except BaseException:
        # Ctrl-C or SIGTERM: Python would abort if it ended while a thread computes. A second one waits, too.
        computes = True
        while computes:
            with suppress(BaseException):
                _outcomes([(tasks, lambda: None) for tasks, _ in calls])
                computes = False
        raise
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return [results[index] for index in range(len(calls))]


def _outcomes(calls: list[tuple[Tasks, Callable[[], Any]]]) -> dict[int, Any]:
    outcomes: Outcomes = SimpleQueue()
    for index, (tasks, call) in enumerate(calls):
        tasks.put((outcomes, index, call))
    return dict(outcomes.get() for _ in calls)


def _work(tasks: Tasks) -> None:
    while True:
        _do(*tasks.get())


def _do(outcomes: Outcomes, index: int, task: Callable[[], Any]) -> None:
    try:
        outcomes.put((index, task()))
    except BaseException as error:
        outcomes.put((index, error))


def _set_threads(count: int) -> None:
    torch.set_num_threads(count)
    # PyTorch applies the number of threads when it is first asked for.
    torch.get_num_threads()


def cpu_count() -> int:
    """Returns the number of processors that this process may use, or of all, if the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    import resource  # Windows has none

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def available_memory() -> int:
    """Returns the bytes that Linux can still give to this process, within the limit of its container."""
    kilobytes = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
    available = 1024 * int(kilobytes["MemAvailable:"])
    limit, used = (Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory.current"))
    if limit.exists() and (bytes_at_most := limit.read_text().strip()) != "max":
        available = min(available, int(bytes_at_most) - int(used.read_text()))
    return available


def max_descriptors() -> int:
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def end_with_parent() -> None:
    """Sends this process SIGTERM as soon as its parent process has ended, even by SIGKILL."""
    Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


Device = str | int | torch.device | None
"""A name of PyTorch's, its `torch.device`, or the index of a GPU; -1 and `None` are the CPU."""
_DEVICE_NAMES = "cpu, cuda, cuda:1 or the like, the number of a GPU, or -1 for the CPU"


def device_name(device: Device) -> str:
    """Returns PyTorch's name of a device, such as `cuda:0` for the index 0; the device need not exist."""
    name = "cpu" if device in (None, -1, "-1") else str(device)
    return f"cuda:{name}" if name.isdecimal() else name


def chosen_device(device: Device, *, option: str) -> torch.device:
    # PyTorch raises any of these for a device that is not there.
    missing = (RuntimeError, AssertionError, ImportError)
    remedy = f"use {_DEVICE_NAMES}"
    with errors_as(ElmoError, f"{device} cannot be used", missing, key=option, remedy=remedy):
        chosen = torch.device(device_name(device))
        torch.empty(0, device=chosen)
    return chosen


def gpu_index(device: Device, *, option: str = "cuda_device") -> int:
    """Returns AllenNLP's index of a GPU with CUDA or of the CPU, -1; of others, it raises `ElmoError`."""
    kind, _, index = device_name(device).partition(":")
    if kind not in ("cpu", "cuda") or not (index or "0").isdecimal():
        raise ElmoError(f"{device!r} is not a device", key=option, remedy=f"use {_DEVICE_NAMES}")
    return -1 if kind == "cpu" else int(index or 0)


def read_gpu(text: str) -> int:
    try:
        return gpu_index(text)
    except ElmoError as error:
        raise argparse.ArgumentTypeError(f"{error.what}; {error.remedy}") from error
