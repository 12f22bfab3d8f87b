"""Two computations at once, each with half of the cores: small products gain little from many threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

Result = TypeVar("Result")


def side_by_side(first: Callable[[], Result], second: Callable[[], Result]) -> tuple[Result, Result]:
    """The results of both, computed without gradients; one after the other where there is one thread."""
    threads = torch.get_num_threads()
    if threads < 2:
        return first(), second()
    workers = _workers(threads // 2, os.getpid())
    futures = [
        worker.submit(torch.no_grad()(task)) for worker, task in zip(workers, (first, second), strict=True)
    ]
    return futures[0].result(), futures[1].result()


@cache
def _workers(threads: int, process: int) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
    """Of this process: a forked one does not inherit threads."""
    ours = torch.get_num_threads()
    workers = ThreadPoolExecutor(1, "elmo"), ThreadPoolExecutor(1, "elmo")
    for worker in workers:
        worker.submit(_set_threads, threads).result()
    # What a thread sets is also what threads to come begin with.
    torch.set_num_threads(ours)
    return workers


def _set_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    # PyTorch takes up a thread's number when it is first asked for.
    torch.get_num_threads()
