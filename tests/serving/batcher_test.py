import asyncio
import threading

import pytest

from elmo_tasks.serving.models import Batcher


class Model:
    """Answers with what it reads, and lists its batches; it waits until it may go on."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = threading.Event()
        self.threads: set[int] = set()

    def __call__(self, inputs):
        self.threads.add(threading.get_ident())
        self.batches.append(inputs)
        assert self.go_on.wait(5)
        if "bad" in inputs:
            raise ValueError("bad")
        return inputs


@pytest.fixture
def model():
    return Model()


def test_what_comes_while_a_batch_runs_is_the_next_one(model):
    async def run():
        batcher = Batcher(model, size=3, wait=0.0)
        first = asyncio.create_task(batcher([0]))
        while not model.batches:
            await asyncio.sleep(0.001)
        later = [asyncio.create_task(batcher(inputs)) for inputs in ([1, 2], [3], [4])]
        await asyncio.sleep(0)
        model.go_on.set()
        return await asyncio.gather(first, *later)

    assert asyncio.run(run()) == [[0], [1, 2], [3], [4]]
    assert model.batches == [[0], [1, 2, 3], [4]]
    assert len(model.threads) == 1
    assert threading.get_ident() not in model.threads


def test_a_batch_waits_for_more(model):
    model.go_on.set()

    async def one_after_the_other(batcher):
        first = asyncio.create_task(batcher([0]))
        await asyncio.sleep(0.01)
        return await asyncio.gather(first, batcher([1]))

    asyncio.run(asyncio.wait_for(one_after_the_other(Batcher(model, size=2, wait=100.0)), 5))
    asyncio.run(one_after_the_other(Batcher(model, size=3, wait=0.2)))
    asyncio.run(one_after_the_other(Batcher(model, size=3, wait=0.0)))
    assert model.batches == [[0, 1], [0, 1], [0], [1]]


def test_what_is_cancelled_is_passed_over(model):
    async def run():
        batcher = Batcher(model, size=1, wait=0.0)
        tasks = [asyncio.create_task(batcher([number])) for number in range(4)]
        while not model.batches:
            await asyncio.sleep(0.001)
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.sleep(0)
        model.go_on.set()
        return await asyncio.gather(tasks[1], tasks[3])

    assert asyncio.run(run()) == [[1], [3]]
    assert model.batches == [[0], [1], [3]]


def test_an_error_is_that_of_its_batch(model):
    model.go_on.set()

    async def run():
        batcher = Batcher(model, size=2, wait=0.0)
        answers = await asyncio.gather(batcher(["bad", 1]), batcher([2]), return_exceptions=True)
        return [*answers, await batcher([3])]

    error, *answers = asyncio.run(run())
    assert isinstance(error, ValueError)
    assert answers == [[2], [3]]
