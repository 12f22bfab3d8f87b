import pytest
import torch

from elmo_tasks.common import packed_weights
from elmo_tasks.elmo.inference import cell, cpu_lstm
from elmo_tasks.elmo.inference.cpu_lstm import CpuLstm
from tests.elmo.inference.layers import (
    SIZES,
    assert_near,
    frozen_layers,
    model_result,
    random_inputs,
    random_stack,
)
from tests.elmo.inference.precisions import PRECISIONS
from tests.elmo.threads import at_once

LENGTHS = [[3, 11, 1, 26, 11], [1, 1, 1], [30, 30, 2], [1], [2], [23]]


def make_kernel(stack, precision="float32") -> CpuLstm:
    return CpuLstm(frozen_layers(stack, precision), skip=stack.use_skip_connections)


def flat(result):
    outputs, state = result
    return [*outputs, *state]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("changes", SIZES)
def test_equals_the_model(changes, lengths):
    stack = random_stack(**changes)
    given = random_inputs(stack, torch.tensor(lengths))
    assert_near(make_kernel(stack)(*given), model_result(stack, *given))


@pytest.mark.parametrize("changes", SIZES)
def test_without_onednn(changes, monkeypatch):
    stack = random_stack(**changes)
    given = random_inputs(stack, torch.tensor(LENGTHS[0]))
    monkeypatch.setattr(packed_weights, "has_onednn", lambda: False)
    assert_near(make_kernel(stack)(*given), model_result(stack, *given))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "changes", [{}, {"dim": 32, "projection_dim": 32}, {"dim": 1024, "projection_dim": 128}]
)
def test_threads_change_no_bit(changes, precision, threads):
    stack = random_stack(**changes)
    given, kernel = random_inputs(stack, torch.tensor([9, 60, 2])), make_kernel(stack, precision)
    found = flat(kernel(*given))
    assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    assert all(map(torch.equal, found, flat(kernel(*given))))


def test_threads_to_come_have_as_many_threads_as_before(threads):
    stack = random_stack()
    make_kernel(stack)(*random_inputs(stack, torch.tensor([3])))
    assert at_once(torch.get_num_threads) == [threads]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("module", "name", "values"),
    [(cell, "ROWS_PER_PRODUCT", (1, 1000)), (cpu_lstm, "DISTINCT_SHARE", (0.0, 100.0))],
)
def test_how_many_inputs_are_projected_at_once_changes_no_bit(monkeypatch, module, name, values, precision):
    stack, results = random_stack(), []
    given = random_inputs(stack, torch.tensor(LENGTHS[0]))
    for value in values:
        monkeypatch.setattr(module, name, value)
        results.append(flat(make_kernel(stack, precision)(*given)))
    assert all(map(torch.equal, *results))


@pytest.fixture
def lone_runs(monkeypatch):
    """Counts the sentences that run in `JoinedLayer`s."""
    runs, run_lone = [], CpuLstm._run_lone
    monkeypatch.setattr(CpuLstm, "_run_lone", lambda *given: runs.append(1) or run_lone(*given))
    return runs


@pytest.mark.parametrize("length", [1, 26, 60])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("changes", SIZES)
def test_a_lone_sentence_has_the_bits_of_both_directions_apart(
    monkeypatch, changes, precision, length, threads, lone_runs
):
    stack = random_stack(**changes)
    given, kernel = random_inputs(stack, torch.tensor([length])), make_kernel(stack, precision)
    results = flat(kernel(*given))
    assert torch.get_num_threads() == threads
    assert not any(part.is_inference() for part in results)
    has_projection = kernel._directions[0][0].projection is not None
    assert len(lone_runs) == (threads <= 2 and has_projection)
    monkeypatch.setattr(cpu_lstm, "MAX_BYTES_JOINED", 0)
    assert all(map(torch.equal, results, flat(make_kernel(stack, precision)(*given))))
    assert len(lone_runs) <= 1


def test_of_two_lone_sentences_at_a_time_one_has_both_threads(threads, lone_runs):
    stack = random_stack()
    given, kernel = random_inputs(stack, torch.tensor([9])), make_kernel(stack)
    results = flat(kernel(*given))
    lone_runs.clear()
    with cpu_lstm._all_threads:
        assert all(map(torch.equal, results, flat(kernel(*given))))
    assert len(lone_runs) == (threads == 1)


def test_weights_that_would_round_otherwise_are_not_joined(monkeypatch):
    """A kernel that adds the terms of a sum in another order for more than 64 outputs."""

    def multiply(rows, weight):
        order = slice(None) if len(weight) <= 64 else torch.arange(rows.size(1) - 1, -1, -1)
        return sum(a[:, None] * b for a, b in zip(rows.T[order], weight.T[order], strict=True))

    monkeypatch.setattr(packed_weights, "has_onednn", lambda: False)
    monkeypatch.setattr(packed_weights, "kernel_call", lambda packed, *_: (multiply, (packed,)))
    monkeypatch.setattr(packed_weights, "_equal_rows_by_shape", {})
    packed_weights._joined_is_alike.cache_clear()
    try:
        for outputs, alike in ((32, True), (40, False)):
            first, second = (packed_weights.pack(torch.randn(outputs, 24)) for _ in range(2))
            assert (first.joined(second) is not None) is alike
    finally:
        packed_weights._joined_is_alike.cache_clear()
