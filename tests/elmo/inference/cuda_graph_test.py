import logging

import pytest
import torch

from elmo_tasks.elmo.inference.cuda_lstm import CudaGraph

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def twice(inputs, other):
    return inputs * 2 + other, inputs.sum(dim=0)


def test_without_cuda_the_function_is_called():
    inputs, other = torch.randn(3, 4), torch.randn(4)
    graph = CudaGraph(twice)
    for _ in range(2):
        assert all(map(torch.equal, graph(inputs, other), twice(inputs, other)))
    assert not graph._recordings


@needs_gpu
def test_played_again_for_other_values_and_recorded_for_other_kinds():
    calls = []

    def counted(*inputs):
        calls.append(inputs[0].shape)
        return twice(*inputs)

    graph = CudaGraph(counted)
    results = []
    for seed, shape, dtype in (
        (0, 3, torch.float),
        (1, 3, torch.float),
        (2, 5, torch.float),
        (3, 3, torch.half),
    ):
        torch.manual_seed(seed)
        inputs, other = torch.randn(shape, 4).to("cuda", dtype), torch.randn(4).to("cuda", dtype)
        results.append((graph(inputs, other), twice(inputs, other)))
    # Each kind once to warm up and once recorded
    assert len(calls) == 6
    # What was returned before is not written over.
    for found, expected in results:
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs)


@needs_gpu
def test_the_recording_used_longest_ago_is_dropped():
    graph = CudaGraph(twice, capacity=2)
    for rows in (1, 2, 1, 3):
        graph(torch.ones(rows, 4, device="cuda"), torch.ones(4, device="cuda"))
    assert sorted(kind[0][0][0] for kind in graph._recordings) == [1, 3]


@needs_gpu
def test_a_recording_that_fails(caplog):
    def reads_a_value(inputs):
        return (inputs * inputs.sum().item(),)

    graph = CudaGraph(reads_a_value)
    inputs = torch.ones(3, device="cuda")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert graph(inputs)[0].tolist() == [3.0, 3.0, 3.0]
    assert caplog.text.count("No CUDA graph could be recorded") == 1
