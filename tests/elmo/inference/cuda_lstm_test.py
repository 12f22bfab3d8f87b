import copy
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.inference.cuda_lstm import RECORDINGS, CudaGraph, CudaLstm
from tests.elmo.files import FILLING, NONEMPTY, SENTENCES, batch, frozen, random_bilm, trained
from tests.elmo.inference.layers import (
    SIZES,
    assert_near,
    frozen_layers,
    model_result,
    random_inputs,
    random_stack,
)


@pytest.mark.parametrize("lengths", [[3, 11, 1, 26, 11], [1] * 9, [5], [8, 16, 24, 7]])
@pytest.mark.parametrize("changes", SIZES)
def test_equals_the_model(changes, lengths):
    stack = random_stack(**changes)
    given = random_inputs(stack, torch.tensor(lengths))
    run = CudaLstm(frozen_layers(stack), torch.float32, skip=stack.use_skip_connections)
    assert_near(run(*given), model_result(stack, *given))


@pytest.mark.cuda
@pytest.mark.parametrize("sentences", [SENTENCES, NONEMPTY[:1], NONEMPTY[3:]])
def test_a_gpu_gives_the_same(sentences):
    bilm = frozen(random_bilm(**FILLING))
    on_gpu = copy.deepcopy(bilm).cuda()
    # The second time from what was recorded, on a GPU whose memory is used again
    for _ in range(2):
        found = on_gpu.encode(batch(sentences).cuda())
        torch.testing.assert_close(found.cpu(), bilm.encode(batch(sentences)), atol=1e-4, rtol=1e-4)
    state = state_on_gpu = None
    for _ in range(3):
        layers, state = bilm(batch(sentences), state)
        found, state_on_gpu = on_gpu(batch(sentences).cuda(), state_on_gpu)
        torch.testing.assert_close(found.cpu(), layers, atol=1e-4, rtol=1e-4)


@pytest.mark.cuda
def test_from_the_gpu_and_back():
    bilm = frozen(random_bilm(**FILLING))
    expected, state = bilm.encode(batch(SENTENCES)), bilm.state_dict()
    bilm.cuda()
    assert all(torch.equal(weight.cpu(), state[name]) for name, weight in bilm.state_dict().items())
    bilm.encode(batch(SENTENCES).cuda())
    assert all(torch.equal(weight.cpu(), state[name]) for name, weight in bilm.state_dict().items())
    assert torch.equal(bilm.cpu().encode(batch(SENTENCES)), expected)


@pytest.mark.cuda
def test_bfloat16_on_a_gpu_is_near():
    model = random_bilm(**FILLING)
    found = frozen(model, "bfloat16").cuda().encode(batch(SENTENCES).cuda()).cpu()
    assert 0 < (found - model.encode(batch(SENTENCES))).abs().max() < 0.1


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_reach_it(dtype):
    bilm = frozen(random_bilm(**FILLING)).cuda()
    ids = batch(SENTENCES).cuda()
    with torch.autocast("cuda", dtype=dtype):
        first = bilm.encode(ids)
    assert first.dtype == torch.float32
    assert torch.equal(bilm.encode(ids), first)
    with torch.autocast("cuda", dtype=dtype):
        assert torch.equal(bilm.encode(ids), first)


@pytest.mark.cuda
def test_more_shapes_than_are_recorded():
    bilm = frozen(random_bilm(**FILLING))
    on_gpu = copy.deepcopy(bilm).cuda()
    words = [f"w{number}" for number in range(3 * RECORDINGS)]
    for count in range(8, 8 * (RECORDINGS + 40), 8):
        sentences = [[words[row % len(words)]] * 3 for row in range(count)]
        found = on_gpu.encode(batch(sentences).cuda())
        if count % 64 == 0:
            torch.testing.assert_close(found.cpu(), bilm.encode(batch(sentences)), atol=1e-4, rtol=1e-4)


@pytest.mark.cuda
def test_eight_callers_of_one_on_a_gpu():
    bilm = frozen(random_bilm(**FILLING)).cuda()
    batches = [batch([words] * (1 + i)).cuda() for i, words in enumerate(NONEMPTY * 2)]
    expected = [bilm.encode(ids) for ids in batches]
    cold = copy.deepcopy(bilm)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for ours, theirs in zip(pool.map(cold.encode, batches), expected, strict=True):
                torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.cuda
@pytest.mark.parametrize("autocast", [True, False])
def test_training_on_a_gpu(autocast):
    model = random_bilm(**FILLING)
    bilm = trained(model).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
        layers = bilm.encode(batch(NONEMPTY).cuda())
        loss = layers.square().sum()
    loss.backward()
    assert all(torch.isfinite(weight.grad).all() for weight in bilm.parameters())
    if not autocast:
        expected = model.encode(batch(NONEMPTY))
        expected.square().sum().backward()
        torch.testing.assert_close(layers.cpu(), expected, atol=1e-4, rtol=1e-4)
        for ours, theirs in zip(bilm.parameters(), model.parameters(), strict=True):
            assert (ours.grad.cpu() - theirs.grad).norm() < 1e-3 * theirs.grad.norm() + 1e-5


@pytest.mark.cuda
def test_a_stateful_elmo_on_a_gpu(files):
    elmo = Elmo(stateful=True, **files)
    on_gpu = Elmo(stateful=True, **files).cuda()
    for sentences in (SENTENCES, NONEMPTY[:2], SENTENCES[::-1]):
        found = on_gpu(batch(sentences).cuda()).input
        torch.testing.assert_close(found.cpu(), elmo(batch(sentences)).input, atol=1e-3, rtol=1e-3)


@pytest.mark.cuda
def test_a_recording_that_fails(caplog):
    def reads_a_value(inputs):
        return (inputs * inputs.sum().item(),)

    graph = CudaGraph(reads_a_value)
    inputs = torch.ones(3, device="cuda")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert graph(inputs)[0].tolist() == [3.0, 3.0, 3.0]
    assert caplog.text.count("No CUDA graph") == 1
