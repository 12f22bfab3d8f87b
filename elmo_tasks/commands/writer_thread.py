"""Work that goes on while the next is prepared."""

from collections.abc import Callable
from queue import Queue
from threading import Thread
from types import TracebackType


class Background:
    """
    Runs calls one after another on a thread of its own.

    A context manager: leaving it waits for the calls, also when an exception leaves it. After a call that
    raised no other is run, and its exception is raised by the next `submit` or in the end.

    # Parameters

    waiting : so many calls may wait; `submit` returns when there is room.
    """

    def __init__(self, *, waiting: int) -> None:
        self._calls: Queue[Callable[[], None] | None] = Queue(waiting)
        self._error: Exception | None = None
        self._thread = Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Background":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._calls.put(None)
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def submit(self, call: Callable[[], None]) -> None:
        if self._error is not None:
            raise self._error
        self._calls.put(call)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._error is None:
                try:
                    call()
                except Exception as error:  # raised again where the call came from
                    self._error = error
