"""Calls on a thread of their own."""

import time

import pytest

from elmo_tasks.embedding.hdf5 import WriterThread


def fail() -> None:
    raise ValueError("disk")


def test_calls_are_run_in_order():
    done = []
    with WriterThread(waiting=2) as writer:
        for number in range(10):
            writer.submit(lambda number=number: done.append(number))
    assert done == list(range(10))


def test_nothing_is_run_after_a_failure():
    done = []

    def fill() -> None:
        with WriterThread(waiting=2) as writer:
            writer.submit(fail)
            for _ in range(10):
                time.sleep(0.01)
                writer.submit(lambda: done.append(1))

    with pytest.raises(ValueError, match="disk"):
        fill()
    assert not done


def test_the_last_call_fails():
    with pytest.raises(ValueError, match="disk"), WriterThread(waiting=2) as writer:
        writer.submit(fail)


def test_what_waits_is_done_when_the_caller_fails():
    done = []

    def fill() -> None:
        with WriterThread(waiting=20) as writer:
            writer.submit(lambda: time.sleep(0.1))
            for _ in range(10):
                writer.submit(lambda: done.append(1))
            raise KeyError

    with pytest.raises(KeyError):
        fill()
    assert len(done) == 10
