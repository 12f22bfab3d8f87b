"""The lock of what threads share in memory; no other thread holds it while a process forks."""

import os
from threading import RLock

SHARED = RLock()
"""
One for all caches and weights, so that threads need not take several in one order; it is held for a short
time. A fork waits for it; else a child would wait for a thread that it does not have.
"""

if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(before=SHARED.acquire, after_in_parent=SHARED.release, after_in_child=SHARED.release)
