"""
The app of a service: models, health, metrics, documents, and the token that it asks for; and its HTTP server.

The server is uvicorn on h11, which bounds the address and headers of a request to some 64 KiB. The number of
connections is bounded, too, and so is the time of each.
"""

import asyncio
import json
import logging
import secrets
import socket
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar, cast

import uvicorn
from allennlp.common import JsonDict
from fastapi import Depends, FastAPI, Request, Response
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmo_tasks import __version__
from elmo_tasks.common.files import json_value
from elmo_tasks.common.machine import max_descriptors
from elmo_tasks.data.input_files import shorten
from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.models import ServedModel

PREDICT = "/predict/"
HEALTH = "/health"
"""The only path that needs no token."""
_MODELS, _SERVICE = "Models", "The service"
"""The groups of the addresses in the documents."""
_ERROR = {
    "description": "The reason.",
    "content": {
        "application/json": {"schema": {"type": "object", "properties": {"error": {"type": "string"}}}}
    },
}
_STATUSES = (400, 401, 408, 413, 415, 422, 429, 500, 503)

Answered = TypeVar("Answered")


def create_app(
    models: Mapping[str, ServedModel],
    *,
    limits: Limits,
    token: str | None = None,
    origins: Sequence[str] = (),
) -> FastAPI:
    """
    Returns an app that answers at `/predict/NAME`, `/health`, `/metrics` and `/openapi.json`; the page adds
    `/docs`. Its `app.state` has the `models`, by their names. With a `token`, all paths but `/health` ask for
    it. Pages of the `origins` may ask, too.
    """
    app = FastAPIOffline(
        title="elmo_tasks",
        description="Archives of the tasks, each at /predict/NAME.",
        version=__version__,
        docs_url=None,  # the page has it
        redoc_url=None,
        openapi_tags=[
            {"name": _MODELS, "description": "Each takes one input, or a list of inputs."},
            {"name": _SERVICE, "description": "For monitors."},
        ],
        redirect_slashes=False,  # to whatever host the request names
    )
    app.state.models = models
    metrics = Metrics(models)
    # For the documents alone: the middleware asks for the token.
    asks = [] if token is None else [Depends(HTTPBearer(auto_error=False))]
    for name, model in models.items():
        app.post(
            PREDICT + name,
            summary=name,
            tags=[_MODELS],
            description=f"One input, or a list of inputs. {model.description}",
            responses=dict.fromkeys(_STATUSES, _ERROR),
            dependencies=asks,
            openapi_extra={
                "requestBody": {"required": True, "content": {"application/json": {"schema": model.schema}}}
            },
        )(_endpoint(model, limits))

    @app.head(HEALTH, include_in_schema=False)
    @app.get(HEALTH, description="Whether the service runs, and its models.", tags=[_SERVICE])
    async def health() -> dict[str, Any]:
        return {"status": "ok", "models": list(models)}

    @app.head("/metrics", include_in_schema=False)
    @app.get("/metrics", description="Counts and times, for Prometheus.", dependencies=asks, tags=[_SERVICE])
    async def read_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        reason = error.detail
        if error.status_code == 404:
            paths = ", ".join(PREDICT + name for name in models)
            reason = f"there is nothing at {request.url.path}; the models are at {paths}"
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow")
            reason = f"{request.url.path} does not take {request.method}, only {allowed}"
        return JSONResponse({"error": reason}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "the service failed; its log has the error"}, 500)

    app.add_middleware(TokenMiddleware, models=models, metrics=metrics, token=token)
    if origins:
        # Around the token, which browsers do not send when they ask whether they may
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


def _endpoint(model: ServedModel, limits: Limits) -> Callable[[Request], Awaitable[Response]]:
    async def predict(request: Request) -> Response:
        with model.slots(1):
            inputs = parse_inputs(await read_body(request, limits), limits)
            if isinstance(inputs, dict):
                (line,) = await until_gone(request, model.lines([inputs]))
                return Response(line, media_type="application/json")
            with model.slots(max(0, len(inputs) - 1)):
                lines = await until_gone(request, model.lines(inputs))
        return Response(f"[{', '.join(lines)}]", media_type="application/json")

    return predict


async def until_gone(request: Request, answer: Awaitable[Answered]) -> Answered:
    """Answers a request, until the client goes: then with nginx's status, as nobody waits for the queue."""
    work = asyncio.ensure_future(answer)
    gone: asyncio.Future[Any] = asyncio.ensure_future(_end_of_client(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise HTTPException(499, "the client has gone")
        return await work
    finally:
        work.cancel()
        gone.cancel()


async def _end_of_client(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def read_body(request: Request, limits: Limits) -> bytes:
    """
    Returns the body of a request; `HTTPException` if it is compressed, too large, too slow, or incomplete. A
    body that is too large is read to its end, but not kept: clients listen only after they have sent it.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise HTTPException(415, f"the content encoding {encoding} is not supported; send plain JSON")
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in request.stream():
                size += len(part)
                if size <= limits.max_bytes:
                    body += part
    except ClientDisconnect as error:
        raise HTTPException(400, "the client has gone before the end of the request") from error
    except TimeoutError as error:
        if size <= limits.max_bytes:
            reason = f"the request did not end within {limits.timeout:g} seconds"
            raise HTTPException(408, reason) from error
    if size > limits.max_bytes:
        raise HTTPException(413, f"the request has more than {limits.max_bytes:,} bytes")
    return bytes(body)


def parse_inputs(body: bytes, limits: Limits) -> JsonDict | list[JsonDict]:
    try:
        content = json_value(body.decode("utf-8").removeprefix("\ufeff"))
    except ValueError as error:
        raise HTTPException(400, f"the request is not JSON: {error}") from error
    inputs = content if isinstance(content, list) else [content]
    if len(inputs) > limits.max_queue:
        raise HTTPException(413, f"a request can have {limits.max_queue:,} inputs, not {len(inputs):,}")
    for index, one in enumerate(inputs, start=1):
        if not isinstance(one, dict):
            reason = f"input {index} of {len(inputs)} is not a JSON object: {shorten(json.dumps(one))}"
            raise HTTPException(422, reason)
    return content


class Metrics:
    def __init__(self, models: Mapping[str, ServedModel]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "elmo_requests", "Answered requests to a model.", ["model", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "elmo_request_seconds", "Time until the answer.", ["model"], registry=self._registry
        )
        queue = Gauge("elmo_queue_inputs", "Inputs in the queue.", ["model"], registry=self._registry)
        for name, model in models.items():
            queue.labels(name).set_function(partial(getattr, model, "taken"))

    def count(self, model: str, status: int, seconds: float) -> None:
        self._requests.labels(model, status).inc()
        self._seconds.labels(model).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class TokenMiddleware:
    """ASGI middleware that asks for the token, if there is one, and counts the requests to models."""

    def __init__(
        self, app: ASGIApp, *, models: Mapping[str, ServedModel], metrics: Metrics, token: str | None
    ) -> None:
        self._app, self._models, self._metrics = app, models, metrics
        self._expected = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        model = path.removeprefix(PREDICT)
        is_counted = path == PREDICT + model and model in self._models

        async def send_and_count(message: Message) -> None:
            if is_counted and message["type"] == "http.response.start":
                self._metrics.count(model, message["status"], time.perf_counter() - start)
            await send(message)

        app = self._app if path == HEALTH or self._may_pass(scope) else _unauthorized
        await app(scope, receive, send_and_count)

    def _may_pass(self, scope: Scope) -> bool:
        if self._expected is None:
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
    reason = "the service needs the header 'Authorization: Bearer TOKEN' with its token"
    response = JSONResponse({"error": reason}, 401, {"WWW-Authenticate": "Bearer"})
    # With this header a browser asks its user for the token.
    response.headers.append("WWW-Authenticate", 'Basic realm="the token of this service, as the password"')
    await response(scope, receive, send)


logger = logging.getLogger("uvicorn.error")
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
_ACCEPTED = 16
"""The connections that asyncio accepts before it closes any of them; they have a descriptor each."""
_WAITING = 1024
"""The connections that the system keeps until they are accepted."""


def make_server(
    app: ASGIApp, limits: Limits, *, access_log: bool = False, root_path: str = ""
) -> uvicorn.Server:
    """
    Returns a server of the app, which logs each request if `access_log`. A proxy that serves it below the
    `root_path` removes this from the paths of requests.
    """
    log = deepcopy(uvicorn.config.LOGGING_CONFIG)
    log["formatters"]["access"]["fmt"] = '%(asctime)s %(client_addr)s "%(request_line)s" %(status_code)s'
    log["loggers"]["uvicorn.error"]["level"] = "WARNING"
    config = uvicorn.Config(
        app,
        http=cast(Any, partial(BoundedProtocol, limits, _ClosedConnections())),
        ws="none",
        loop="asyncio",
        backlog=_ACCEPTED,
        access_log=access_log,
        root_path=root_path,
        log_config=log,
        timeout_graceful_shutdown=limits.timeout,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            # asyncio has only one number for both.
            listening.listen(_WAITING)


class _ClosedConnections:
    """Logs the connections that the service has closed, in one line a second for each reason."""

    def __init__(self) -> None:
        self._hosts: dict[str, list[str | None]] = {}

    def add(self, reason: str, host: str | None) -> None:
        if not self._hosts:
            asyncio.get_running_loop().call_later(1, self._log)
        self._hosts.setdefault(reason, []).append(host)

    def _log(self) -> None:
        for reason, hosts in self._hosts.items():
            some = ", ".join(sorted({str(host) for host in hosts})[:3])
            logger.warning("closed %s connections of %s: %s", f"{len(hosts):,}", some, reason)
        self._hosts = {}


class BoundedProtocol(H11Protocol):
    """
    A connection that is closed when its time is over. It has the seconds of `limits.timeout` to send the
    headers of a request, and three times that until the request is answered. The answer may wait for the
    body, for the tokens of a form, and for a model.
    """

    def __init__(self, limits: Limits, closed: _ClosedConnections, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._closed = closed
        self._timer: asyncio.TimerHandle | None = None
        self._state: object = None
        """The request that is awaited or answered when the timer ends."""

    @property
    def host(self) -> str | None:
        return self.client[0] if self.client else None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Otherwise the body of an answer waits until the client acknowledges its headers, some 40 ms; asyncio
        # does it only for sockets that name their protocol.
        with suppress(OSError):  # The client has closed it.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hosts = [other.host for other in self.connections if isinstance(other, BoundedProtocol)]
        # The rest of the descriptors is for files, and for connections that are refused.
        most, most_of_client = (
            min(self._limits.max_connections, max_descriptors() // 2),
            self._limits.max_connections_of_client,
        )
        if len(hosts) > most or hosts.count(self.host) > most_of_client:
            self._closed.add(f"{most:,} are open, or {most_of_client:,} of one client", self.host)
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
        self._closed.add(f"their requests did not end within {seconds:g} seconds", self.host)
        self.transport.abort()
