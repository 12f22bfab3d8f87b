"""The models of a service: their queues, batches and schemas, and the archives that they come from."""

import asyncio
import inspect
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NotRequired

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict  # pydantic requires this one before Python 3.12

from elmo_tasks.archives import open_archive
from elmo_tasks.archives.opening import TRAINED, trained_archives, trained_card
from elmo_tasks.common.progress import progress
from elmo_tasks.pipeline.predictor import TaskPredictor, as_task_predictor, attempt, example_of
from elmo_tasks.pipeline.trained import task_predictor
from elmo_tasks.serving.answers import Answers, Limits, Query, Refusal, Reply

RETRY_SOON = {"Retry-After": "1"}
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)


@dataclass(kw_only=True)
class Queue:
    """The number of inputs that wait or are being answered, with its limit."""

    limits: Limits
    taken: int = field(default=0, init=False)

    @contextmanager
    def slots(self, count: int) -> Iterator[None]:
        if self.taken + count > self.limits.max_queue:
            reason = f"{self.taken} inputs wait already, and {self.limits.max_queue} is the limit with these"
            raise HTTPException(429, reason, RETRY_SOON)
        self.taken += count
        try:
            yield
        finally:
            self.taken -= count


@dataclass(kw_only=True)
class ServedModel(Queue):
    """A model that answers inputs within the limits, in order; with the JSON schema of a request."""

    answer: Callable[[list[Query]], Awaitable[list[Reply]]]
    description: str
    schema: dict[str, Any]

    async def lines(self, inputs: list[JsonDict], *, explain: bool = False) -> list[str]:
        """Returns lines of `allennlp predict` or `elmo explain`; `HTTPException` if refused or late."""
        async with in_time(self.limits):
            answers = await self.answer([Query(content, explain) for content in inputs])
        for index, answer in enumerate(answers, start=1):
            if isinstance(answer, Refusal):
                where = f"input {index} of {len(inputs)}: " if len(inputs) > 1 else ""
                raise HTTPException(answer.status, where + answer.reason)
        return [str(answer) for answer in answers]


@asynccontextmanager
async def in_time(limits: Limits) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limits.timeout):
            yield
    except TimeoutError as error:
        reason = f"no answer within {limits.timeout:g} seconds"
        raise HTTPException(503, reason, RETRY_SOON) from error


def local_model(predictor: TaskPredictor, limits: Limits) -> ServedModel:
    batcher = Batcher(Answers(predictor, limits), size=limits.batch_size, wait=limits.batch_wait)
    return served(predictor, batcher, limits)


def served(
    predictor: TaskPredictor, answer: Callable[[list[Query]], Awaitable[list[Reply]]], limits: Limits
) -> ServedModel:
    # The parameters are the predictor's: an input cannot give them.
    description, _, _ = (inspect.getdoc(predictor) or "").partition("\n\n# Parameters")
    return ServedModel(
        answer=answer, description=description, schema=request_schema(predictor), limits=limits
    )


def request_schema(predictor: TaskPredictor) -> dict[str, Any]:
    optional: dict[str, Any] = {name: NotRequired[kind] for name, kind in predictor.optional_fields.items()}
    forms = []
    for form in predictor.forms:
        fields: Any = TypedDict(" and ".join(form), {**form, **optional})  # type: ignore[misc]
        forms.append(TypeAdapter(fields).json_schema())
    one = {"anyOf": forms}
    return {"anyOf": [*forms, {"type": "array", "items": one, "title": "several inputs"}]}


class Batcher:
    """
    Batches of at most `size` queries that arrive at about the same time, which a thread answers. While it
    computes a batch, others wait for the next one, in order; an incomplete batch waits `wait` seconds.
    """

    def __init__(self, answer: Callable[[list[Query]], list[Reply]], *, size: int, wait: float) -> None:
        self._answer = answer
        self._size = size
        self._wait = wait
        self._waiting: deque[tuple[Query, asyncio.Future[Reply]]] = deque()
        # While another model predicts, PyTorch's own default may be one thread.
        threads = torch.get_num_threads()
        self._thread = ThreadPoolExecutor(1, "model", torch.set_num_threads, (threads,))
        self._full = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    async def __call__(self, queries: list[Query]) -> list[Reply]:
        """Returns the answers, in order. A query whose caller is cancelled before its turn is skipped."""
        futures = [asyncio.get_running_loop().create_future() for _ in queries]
        self._waiting.extend(zip(queries, futures, strict=True))
        if self._work is None or self._work.done():
            self._full = asyncio.Event()  # of this loop
            self._work = asyncio.create_task(self._run())
        if self._is_full():
            self._full.set()
        return await asyncio.gather(*futures)

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._size

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            if not self._is_full():
                self._full.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), self._wait)
            batch = self._next()
            if not batch:
                continue
            try:
                answers = await loop.run_in_executor(self._thread, self._answer, [one for one, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), answer in zip(batch, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)

    def _next(self) -> list[tuple[Query, asyncio.Future[Reply]]]:
        batch: list[tuple[Query, asyncio.Future[Reply]]] = []
        while self._waiting and len(batch) < self._size:
            entry = self._waiting.popleft()
            if not entry[1].done():
                batch.append(entry)
        return batch


class OpenedArchive(NamedTuple):
    archive: str
    predictor: TaskPredictor


def trained_models() -> list[str]:
    """Returns the trained models of the project that have examples; `elmo:predicates` only helps another."""
    names = [f"{TRAINED}{name}" for name in trained_archives() if "examples" in trained_card(name)]
    if not names:
        raise ConfigurationError(
            "no trained models are installed; name an ARCHIVE, or install elmo_tasks[models]"
        )
    return names


def open_archives(
    archives: Sequence[str], device: int = -1, min_probability: float = 0.0
) -> dict[str, OpenedArchive]:
    """
    Opens each `NAME=ARCHIVE` under its name, `elmo:NAME` under that name, and each other `ARCHIVE` under the
    name of its task. An existing path is never taken for `NAME=ARCHIVE`. Models without probabilities have no
    `min_probability`. For errors see `open_archive`.
    """
    opened: dict[str, OpenedArchive] = {}
    for argument in progress(archives, work="open", unit="archives"):
        match = None if os.path.exists(argument) else _NAMED.fullmatch(argument)
        name, archive = match.groups() if match else (None, argument)
        predictor = open_predictor(archive, device, min_probability)
        trained = archive.removeprefix(TRAINED) if archive.startswith(TRAINED) else None
        name = name or trained or predictor.task()
        if name in opened:
            raise ConfigurationError(
                f"{opened[name].archive} and {archive} have the same name, {name}; give one another, as "
                "NAME=ARCHIVE"
            )
        opened[name] = OpenedArchive(archive, predictor)
    return opened


def open_predictor(archive: str, device: int = -1, min_probability: float = 0.0) -> TaskPredictor:
    """Opens an archive, and returns its predictor, which has run once; see `open_archives`."""
    predictor = task_predictor(open_archive(archive, cuda_device=device))
    if predictor.columns:
        predictor = as_task_predictor(predictor, min_probability)
    # In several threads, what runs for the first time may fail.
    text = "The bank paid Anna."
    attempt(
        predictor.predict_json, {name: example_of(kind, text) for name, kind in predictor.forms[0].items()}
    )
    return predictor
