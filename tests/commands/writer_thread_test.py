"""Calls on a thread of their own."""

import time

import pytest

from elmo_tasks.commands.writer_thread import Background


def fail() -> None:
    raise ValueError("disk")


def test_calls_are_run_in_order():
    done = []
    with Background(waiting=2) as background:
        for number in range(10):
            background.submit(lambda number=number: done.append(number))
    assert done == list(range(10))


def test_nothing_is_run_after_a_failure():
    done = []

    def fill() -> None:
        with Background(waiting=2) as background:
            background.submit(fail)
            for _ in range(10):
                time.sleep(0.01)
                background.submit(lambda: done.append(1))

    with pytest.raises(ValueError, match="disk"):
        fill()
    assert not done


def test_the_last_call_fails():
    with pytest.raises(ValueError, match="disk"), Background(waiting=2) as background:
        background.submit(fail)


def test_what_waits_is_done_when_the_caller_fails():
    done = []

    def fill() -> None:
        with Background(waiting=20) as background:
            background.submit(lambda: time.sleep(0.1))
            for _ in range(10):
                background.submit(lambda: done.append(1))
            raise KeyError

    with pytest.raises(KeyError):
        fill()
    assert len(done) == 10
