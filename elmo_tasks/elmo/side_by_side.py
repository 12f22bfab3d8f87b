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
    # A thread that sets its own number of threads also sets that of threads to come.
    torch.set_num_threads(threads)
    futures = [workers.submit(torch.no_grad()(task)) for task in (first, second)]
    return futures[0].result(), futures[1].result()


@cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    """Of this process: a forked one does not inherit threads."""
    workers = ThreadPoolExecutor(2, "elmo", initializer=torch.set_num_threads, initargs=(threads,))
    # Both are started now.
    for _ in workers.map(_nothing, range(2)):
        pass
    return workers


def _nothing(_: int) -> None:
    pass
