"""A thread that writes while the next batch is computed."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType


class WriterThread:
    """
    Runs calls one after another on a thread of its own.

    A context manager: leaving it waits for the calls, also when an exception leaves it. After a call that
    raised, no other is run, and its exception is raised by a later `submit` or in the end.

    # Parameters

    waiting : so many calls may wait; `submit` returns when there is room.
    """

    def __init__(self, *, waiting: int) -> None:
        self._waiting = waiting
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._calls: deque[Future[None]] = deque()

    def __enter__(self) -> "WriterThread":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown()
        if self._calls and error is None:
            self._calls[-1].result()

    def submit(self, call: Callable[[], None]) -> None:
        while self._calls and (len(self._calls) > self._waiting or self._calls[0].done()):
            self._calls.popleft().result()
        before = self._calls[-1] if self._calls else None
        self._calls.append(self._pool.submit(_run_after, before, call))


def _run_after(before: Future[None] | None, call: Callable[[], None]) -> None:
    """Runs `call`, or raises what the call before it has raised. There is one thread, so that one is done."""
    if before is not None:
        before.result()
    call()
