"""The machine that a process runs on, of which each system tells in its own way."""

import os
import resource
import sys


def cpu_count() -> int:
    """The processors that this process may use, or, on systems that do not say which, all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    """The most memory that this process has had so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
