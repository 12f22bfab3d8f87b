"""
The HTTP server of an app: uvicorn on h11, which bounds the address and headers of a request to some 64 KiB,
with bounds on the connections, and on the time of each.
"""

import asyncio
import logging
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmo_tasks.common.machine import max_descriptors
from elmo_tasks.serving.answers import Limits

logger = logging.getLogger("uvicorn.error")
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


def make_server(app: ASGIApp, limits: Limits, *, log_level: str = "warning") -> uvicorn.Server:
    """Returns a server that answers at the sockets that its `run` takes."""
    config = uvicorn.Config(
        app,
        http=cast(Any, partial(BoundedProtocol, limits)),
        ws="none",
        access_log=False,
        log_level=log_level,
        timeout_graceful_shutdown=limits.timeout,
    )
    return uvicorn.Server(config)


class BoundedProtocol(H11Protocol):
    """
    A connection that is closed when its time is over: the seconds of `limits.timeout` until it has sent the
    headers of a request, and three times that until the request is answered, which may wait for its body, for
    the tokens of a form, and for a model.
    """

    def __init__(self, limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._state: object = None
        """The request that is awaited or answered when the timer ends."""

    @property
    def host(self) -> str | None:
        """The client's address."""
        return self.client[0] if self.client else None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        hosts = [other.host for other in self.connections if isinstance(other, BoundedProtocol)]
        of_client = hosts.count(self.host)
        # The rest of the descriptors is for files, and for connections that are refused.
        most = min(self._limits.max_connections, max_descriptors() // 2)
        if len(hosts) > most or of_client > self._limits.max_connections_of_client:
            self._log(f"found {len(hosts):,} connections, {of_client:,} of this client")
            transport.write(_REFUSAL)
            transport.close()
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        is_answered = self.cycle is None or self.cycle.response_complete
        if self._timer is not None:
            if self._state == (self.cycle, is_answered):
                return
            self._timer.cancel()
        self._state = self.cycle, is_answered
        seconds = self._limits.timeout * (1 if is_answered else 3)
        self._timer = self.loop.call_later(seconds, self._expire, seconds)

    def _expire(self, seconds: float) -> None:
        self._log(f"found no end of a request within {seconds:g} seconds")
        self.transport.abort()

    def _log(self, reason: str) -> None:
        logger.warning("closed a connection of %s: %s", self.host, reason)
