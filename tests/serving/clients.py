"""An app with a small model, and clients of it."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from elmo_tasks.serving.answers import Limits, Query, Reply
from elmo_tasks.serving.app import create_app, make_server
from elmo_tasks.serving.models import ServedModel


class Unfinished:
    """Answers nothing, until it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    async def __call__(self, queries: list[Query]) -> list[Reply]:
        try:
            return await asyncio.Future()
        finally:
            self.cancelled.set()


def model_of(answer: Callable[[list[Query]], Awaitable[list[Reply]]], **limits: Any) -> ServedModel:
    return ServedModel(answer=answer, description="", schema={}, limits=Limits(**limits))


def ask(
    models: dict[str, ServedModel], limits: Limits, *requests: Any, **options: Any
) -> list[httpx.Response]:
    """The responses to requests, one after the other, without a network; each is (method, path, options)."""

    async def responses() -> list[httpx.Response]:
        transport = httpx.ASGITransport(
            create_app(models, limits=limits, **options), raise_app_exceptions=False
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await client.request(method, path, **more) for method, path, more in requests]

    return asyncio.run(responses())


@contextmanager
def running(
    models: dict[str, ServedModel],
    limits: Limits,
    extend: Callable[[FastAPI], object] = lambda app: None,
    access_log: bool = False,
    **options: Any,
) -> Iterator[str]:
    """The address of a server in a thread of this process; `extend` adds to the app."""
    app = create_app(models, limits=limits, **options)
    extend(app)
    server = make_server(app, limits, access_log=access_log)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
