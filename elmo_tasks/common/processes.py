"""Processes: processors and memory, an end with the parent process, and a lock that survives forks."""

import multiprocessing
import os
import signal
import sys
from threading import RLock, Thread

SHARED = RLock()
"""
The one lock of all caches and weights, so that threads need no order of locks. It is held for a short time.
A fork waits for it: otherwise a child could wait for a thread that it does not have.
"""

if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(before=SHARED.acquire, after_in_parent=SHARED.release, after_in_child=SHARED.release)


def cpu_count() -> int:
    """Returns the number of processors that this process may use, or of all, if the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    """Returns the most memory that this process has had so far, in bytes."""
    import resource  # Windows has none

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def max_descriptors() -> int:
    """Returns the number of files and connections that this process may have open."""
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
