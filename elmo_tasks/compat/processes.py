"""Processes that do not outlive the one that started them."""

import multiprocessing
import os
import signal
import threading


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
