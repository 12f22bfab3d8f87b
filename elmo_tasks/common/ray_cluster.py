"""A connection to Ray, for `--engine ray` and `--replicas`: a cluster, or a Ray of this process alone."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

# Ray reads them when it starts. The first one turns off its usage statistics.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

_STORE_BYTES = 1 << 27
"""The size of a local object store, in addition to what its processes share."""
_ANSWER_SECONDS = 10


@contextmanager
def connected(address: str | None, *, cpus: int, shared_bytes: int = 0, logs: bool = False) -> Iterator[None]:
    """
    Connects to a cluster, or starts a Ray of this process alone, which ends with the context, of `cpus`
    processors and a store for `shared_bytes`. It is a `ConnectionError` if Ray does not answer.
    """
    if ray.is_initialized():
        yield
        return
    if not logs:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    local: dict[str, Any] = {
        "num_cpus": cpus,
        "include_dashboard": False,
        "object_store_memory": _STORE_BYTES + 2 * shared_bytes,
    }
    before = signal.getsignal(signal.SIGTERM)
    try:
        host, colon, port = (address or "").rpartition(":")
        if colon and "://" not in host and port.isdecimal():
            # If nothing answers there, Ray itself would wait for minutes.
            socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
        ray.init(
            address=address or "local",
            logging_level=logging.ERROR,
            log_to_driver=logs,
            **({} if address else local),
        )
    except Exception as error:  # Ray has no class for a node that does not start
        raise ConnectionError(f"{f'--ray-address {address}' if address else 'Ray'}: {error}") from error
    if callable(before) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray's own would end the process with 15
    try:
        yield
    finally:
        ray.shutdown()
