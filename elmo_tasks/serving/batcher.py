"""Batches of the inputs that come at about the same time, in one process."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from allennlp.common import JsonDict

from elmo_tasks.serving.answers import Answer


class Batcher:
    """
    While a thread is busy with a batch, inputs wait for the next one, in their order.

    # Parameters

    answer : answers a batch; called in a thread of its own, one batch after the other.
    size : of a batch, at most.
    wait : seconds for which a batch that is not full waits for more inputs.
    """

    def __init__(self, answer: Callable[[list[JsonDict]], list[Answer]], *, size: int, wait: float) -> None:
        self._answer = answer
        self._size = size
        self._wait = wait
        self._waiting: deque[tuple[JsonDict, asyncio.Future[Answer]]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")
        self._full = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    async def __call__(self, inputs: list[JsonDict]) -> list[Answer]:
        """The answers, in order. Inputs whose caller is cancelled before their turn are passed over."""
        futures = [asyncio.get_running_loop().create_future() for _ in inputs]
        self._waiting.extend(zip(inputs, futures, strict=True))
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

    def _next(self) -> list[tuple[JsonDict, asyncio.Future[Answer]]]:
        batch: list[tuple[JsonDict, asyncio.Future[Answer]]] = []
        while self._waiting and len(batch) < self._size:
            entry = self._waiting.popleft()
            if not entry[1].done():
                batch.append(entry)
        return batch
