"""
The machine that a process runs on, of which each system tells in its own way.

Processes that do not outlive the one that started them.

The lock of what threads share in memory; no other thread holds it while a process forks.
"""

import multiprocessing
import os
import resource
import signal
import sys
import threading
from threading import RLock


# ==== machine
def cpu_count() -> int:
    """The processors that this process may use, or, on systems that do not say which, all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    """The most memory that this process has had so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# ==== compat.processes
def end_with_parent() -> None:
    """
    From now on this process gets SIGTERM as soon as the process that started it has ended, also by SIGKILL.
    """
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


# ==== elmo.inference.shared_lock
SHARED = RLock()
"""
One for all caches and weights, so that threads need not take several in one order; it is held for a short
time. A fork waits for it; else a child would wait for a thread that it does not have.
"""

if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(before=SHARED.acquire, after_in_parent=SHARED.release, after_in_child=SHARED.release)
