"""The app: a route for each model, and what a service has beside them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from elmo_tasks import __version__
from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.gate import HEALTH, PREDICT, Gate, Metrics
from elmo_tasks.serving.models import ServedModel
from elmo_tasks.serving.requests import parse, read_body

_ERROR = {
    "description": "What was found, and what was expected.",
    "content": {
        "application/json": {"schema": {"type": "object", "properties": {"error": {"type": "string"}}}}
    },
}
_STATUSES = (400, 401, 408, 413, 415, 422, 429, 500, 503)


def create_app(models: Mapping[str, ServedModel], *, limits: Limits, token: str | None = None) -> FastAPI:
    """
    An app that answers at `/predict/NAME`, `/health`, `/metrics` and `/docs`. More may be mounted;
    `app.state` has the `models`.

    # Parameters

    models : by their names.
    limits : of a request.
    token : with one, all but `/health` asks for it.
    """
    app = FastAPI(
        title="elmo_tasks",
        description="Archives of the tasks, each at /predict/NAME.",
        version=__version__,
        redoc_url=None,
    )
    app.state.models = models
    metrics = Metrics(models)
    for name, model in models.items():
        app.post(
            PREDICT + name,
            summary=name,
            description=f"One input, or a list of inputs. {model.description}",
            responses=dict.fromkeys(_STATUSES, _ERROR),
            openapi_extra={
                "requestBody": {"required": True, "content": {"application/json": {"schema": model.schema}}}
            },
        )(_endpoint(model, limits))

    @app.head(HEALTH, include_in_schema=False)
    @app.get(HEALTH, description="Whether the service runs, and its models.")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "models": list(models)}

    @app.head("/metrics", include_in_schema=False)
    @app.get("/metrics", description="Counts and times, as Prometheus reads them.")
    async def read_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        reason = error.detail
        if error.status_code == 404:
            reason = f"found {request.url.path}, expected {', '.join(PREDICT + name for name in models)}"
        elif error.status_code == 405:
            reason = (
                f"found {request.method} {request.url.path}, expected {(error.headers or {}).get('Allow')}"
            )
        return JSONResponse({"error": reason}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "the service failed; its log says how"}, 500)

    app.add_middleware(Gate, models=models, metrics=metrics, token=token)
    return app


def _endpoint(model: ServedModel, limits: Limits) -> Callable[[Request], Awaitable[Response]]:
    async def predict(request: Request) -> Response:
        with model.places(1):
            inputs = parse(await read_body(request, limits), limits)
            if isinstance(inputs, dict):
                (line,) = await model.lines([inputs])
                return Response(line, media_type="application/json")
            with model.places(max(0, len(inputs) - 1)):
                lines = await model.lines(inputs)
        return Response(f"[{', '.join(lines)}]", media_type="application/json")

    return predict
