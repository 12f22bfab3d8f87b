"""A sentence has the same vectors alone and in any batch, order, number of threads, and from any caller."""

import os
import random
import resource
import signal
import sys
import threading
import time
from functools import partial

import pytest
import torch

from elmo_tasks.elmo.inference import frozen_bilm
from elmo_tasks.elmo.inference.character_cnn import WordCache
from tests.elmo.files import FILLING, NONEMPTY, SENTENCES, VARIANTS, batch, frozen, random_bilm, trained
from tests.elmo.inference.precisions import PRECISIONS
from tests.elmo.threads import at_once

CALLERS = 8


def assert_rows(layers, sentences, expected):
    """`expected`: of each sentence, by its words."""
    for row, words in enumerate(sentences):
        if words:
            assert torch.equal(layers[:, row, : len(words)], expected[tuple(words)]), words


def each_alone(bilm, sentences):
    return {tuple(words): bilm.encode(batch([words]))[:, 0] for words in sentences if words}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_not_a_bit_depends_on_the_batch(precision, threads, monkeypatch):
    model = random_bilm(**FILLING)
    torch.set_num_threads(1)
    expected = each_alone(frozen(model, precision), NONEMPTY)
    torch.set_num_threads(threads)
    # Warm, of all words or of some, and cold each time
    warm = frozen(model, precision)
    for seed in range(5):
        sentences = random.Random(seed).choices(SENTENCES, k=2 + 2 * seed)
        if any(sentences):
            assert_rows(warm.encode(batch(sentences)), sentences, expected)
            assert_rows(frozen(model, precision).encode(batch(sentences)), sentences, expected)
            warm.clear_word_cache()
            assert_rows(warm.encode(batch(sentences)), sentences, expected)
    assert_rows(warm.encode(batch([NONEMPTY[-1]])), [NONEMPTY[-1]], expected)
    monkeypatch.setattr(frozen_bilm, "TOKENS_PER_PART", 8)
    assert_rows(warm.encode(batch(SENTENCES)), SENTENCES, expected)


@pytest.mark.parametrize("changes", VARIANTS)
def test_nor_with_sizes_that_fill_no_vectors(changes, threads):
    bilm = frozen(random_bilm(**changes))
    expected = each_alone(bilm, NONEMPTY)
    assert_rows(bilm.encode(batch(SENTENCES)), SENTENCES, expected)
    bilm.clear_word_cache()
    assert_rows(bilm.encode(batch(SENTENCES[::-1])), SENTENCES[::-1], expected)


@pytest.mark.parametrize("sizes", [{"dim": 1024, "projection_dim": 32}, {"dim": 650, "projection_dim": 100}])
def test_nor_with_enough_values_for_many_threads(sizes):
    """PyTorch shares an operation among threads from 32,768 values on; here one has up to 246,000."""
    bilm = frozen(random_bilm(n_layers=1, filters=[[1, 32], [2, 1000]], **sizes))
    sentences = [[f"w{row}{i}" for i in range(1 + row % 4)] for row in range(60)]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    expected = each_alone(bilm, sentences)
    try:
        for number in (1, 3, 5, 8):
            torch.set_num_threads(number)
            for some in (sentences, sentences[:17], sentences[:41]):
                bilm.clear_word_cache()
                assert_rows(bilm.encode(batch(some)), some, expected)
    finally:
        torch.set_num_threads(before)


SHORT = [["a", "b", "c"], ["the", "cat", "sat", "on", "it"], ["Yes"]]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "sizes",
    [
        {"dim": 512, "projection_dim": 128},
        {"dim": 1024, "projection_dim": 128},
        {"dim": 2048, "projection_dim": 256, "n_layers": 1},
    ],
)
def test_published_sizes(sizes, precision, threads):
    bilm = frozen(random_bilm(filters=FILLING["filters"], **sizes), precision)
    torch.set_num_threads(1)
    expected = each_alone(bilm, SHORT)
    torch.set_num_threads(threads)
    for sentences in (SHORT, SHORT[::-1] * 3, *([words] for words in SHORT)):
        assert_rows(bilm.encode(batch(sentences)), sentences, expected)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_text_goes_on_with_the_same_bits_alone_and_beside_others(precision, threads):
    bilm = frozen(random_bilm(**FILLING), precision)
    parts = [[["a", "b", "c"], ["d", "e"]], [["f"], ["g", "h", "i", "j"]], [["k", "l"], ["m"]]]
    together = None
    alone = [None, None]
    for sentences in parts:
        layers, together = bilm(batch(sentences), together)
        for row, words in enumerate(sentences):
            found, alone[row] = bilm(batch([words]), alone[row])
            assert torch.equal(found[:, 0], layers[:, row, : len(words)])
            for ours, theirs in zip(alone[row], together, strict=True):
                assert torch.equal(ours[:, :, 0], theirs[:, :, row])


BATCHES = [random.Random(seed).choices(NONEMPTY, k=1 + seed % 4) for seed in range(CALLERS)]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_eight_callers_of_a_cold_bilm(precision):
    model = random_bilm(**FILLING)
    serial = frozen(model, precision)
    expected = [serial.encode(batch(sentences)) for sentences in BATCHES]
    for repetition in range(20):
        cold = frozen(model, precision)
        order = random.Random(repetition).sample(range(CALLERS), CALLERS)
        found = at_once(*(partial(cold.encode, batch(BATCHES[number])) for number in order))
        for i, layers in zip(order, found, strict=True):
            assert torch.equal(layers, expected[i]), repetition
        # And it is not wrong for good
        assert torch.equal(cold.encode(batch(BATCHES[0])), expected[0])


def test_eight_callers_with_different_starts_and_an_emptied_cache():
    bilm = frozen(random_bilm(**FILLING))
    starts = [bilm(batch([[f"start{number}"]]))[1] for number in range(CALLERS)]
    calls = [
        partial(bilm.encode, batch(sentences), start)
        for sentences, start in zip(BATCHES, starts, strict=True)
    ]
    expected = [call() for call in calls]
    for _ in range(20):
        bilm.clear_word_cache()
        assert all(map(torch.equal, at_once(*calls), expected))


def test_eight_callers_while_the_weights_are_read_and_copied():
    model = random_bilm(**FILLING)
    expected = frozen(model).encode(batch(NONEMPTY))
    state = model.state_dict()
    for _ in range(10):
        cold = frozen(model)
        encode = [partial(cold.encode, batch(NONEMPTY))] * 4
        found = at_once(*encode, cold.state_dict, cold.state_dict, cold.digest, cold.weights)
        assert all(torch.equal(layers, expected) for layers in found[:4])
        for weights in (*found[4:6], found[7]):
            assert all(torch.equal(weights[name], weight) for name, weight in state.items())


def same_in_a_fork(bilm, expected):
    """Whether a forked process computes the expected layers, within ten seconds."""
    process = os.fork()
    if not process:
        signal.alarm(10)
        # PyTorch's own threads are not here.
        torch.set_num_threads(1)
        os._exit(0 if torch.equal(bilm.encode(batch(NONEMPTY)), expected) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@pytest.mark.parametrize(("owner", "step"), [(frozen_bilm, "Kernels"), (WordCache, "_reserve")])
@pytest.mark.parametrize("trainable", [False, True])
def test_a_process_forks_while_a_thread_computes(monkeypatch, owner, step, trainable):
    model = random_bilm()
    expected = frozen(model).encode(batch(NONEMPTY))
    bilm = trained(model).requires_grad_(False).eval() if trainable else frozen(model)
    plain, within = getattr(owner, step), threading.Event()

    def slow(*arguments):
        within.set()
        time.sleep(0.2)
        return plain(*arguments)

    monkeypatch.setattr(owner, step, slow)
    thread = threading.Thread(target=bilm.encode, args=(batch(NONEMPTY),))
    thread.start()
    assert within.wait(10)
    assert same_in_a_fork(bilm, expected)
    thread.join()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_beside_the_result_does_not_grow_with_the_batch():
    bilm = frozen(random_bilm(dim=2048, projection_dim=8))
    sentence = [f"w{number}" for number in range(25)]
    bilm.encode(batch([sentence] * 80))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bilm.encode(batch([sentence] * 800))
    # 20,000 tokens: all gates at once would take 650 MB, the result takes 4 MB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
