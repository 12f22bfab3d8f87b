"""What every request passes: the token is asked for, and the request is counted."""

import secrets
import time
from base64 import b64decode
from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_tasks.serving.models import ServedModel

PREDICT = "/predict/"
HEALTH = "/health"
"""The path that needs no token."""


class Metrics:
    """The metrics of a service, for Prometheus."""

    def __init__(self, models: Mapping[str, ServedModel]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "elmo_requests",
            "Requests to a model that were answered.",
            ["model", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "elmo_request_seconds", "Time until the answer.", ["model"], registry=self._registry
        )
        queue = Gauge("elmo_queue_inputs", "Inputs that have a place.", ["model"], registry=self._registry)
        for name, model in models.items():
            queue.labels(name).set_function(partial(getattr, model, "taken"))

    def count(self, model: str, status: int, seconds: float) -> None:
        """A request that was answered."""
        self._requests.labels(model, status).inc()
        self._seconds.labels(model).observe(seconds)

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self._registry)


class Gate:
    """
    ASGI middleware.

    # Parameters

    models : by their names.
    metrics : that count requests to them.
    token : that is asked for, if any.
    """

    def __init__(
        self, app: ASGIApp, *, models: Mapping[str, ServedModel], metrics: Metrics, token: str | None
    ) -> None:
        self._app, self._models, self._metrics = app, models, metrics
        self._expected = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        model = scope["path"].removeprefix(PREDICT)

        async def counted(message: Message) -> None:
            if (
                message["type"] == "http.response.start"
                and PREDICT + model == scope["path"]
                and model in self._models
            ):
                self._metrics.count(model, message["status"], time.perf_counter() - began)
            await send(message)

        app = self._app if self._may_pass(scope) else _unauthorized
        await app(scope, receive, counted)

    def _may_pass(self, scope: Scope) -> bool:
        if self._expected is None or scope["path"] == HEALTH:
            return True
        kind, _, content = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":
            try:
                content = b64decode(content, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif kind.lower() != b"bearer":
            return False
        return secrets.compare_digest(content, self._expected)


async def _unauthorized(scope: Scope, receive: Receive, send: Send) -> None:
    reason = "expected the header 'Authorization: Bearer TOKEN', with the token of this service"
    response = JSONResponse({"error": reason}, 401, {"WWW-Authenticate": "Bearer"})
    # A browser asks its user for it.
    response.headers.append("WWW-Authenticate", 'Basic realm="the token of this service, as the password"')
    await response(scope, receive, send)
