import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from elmo_tasks.common import packed_weights
from elmo_tasks.elmo.inference import cell, cpu_lstm
from elmo_tasks.elmo.inference.cpu_lstm import CpuLstm
from elmo_tasks.elmo.inference.layout import PackedSteps, read_steps, steps_in_order
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


def test_a_sentence_alone_and_beside_another():
    stack = random_stack()
    inputs, index, lengths, state = random_inputs(stack, torch.tensor([9, 4]))
    run = make_kernel(stack)
    outputs, after = run(inputs, index, lengths, state)
    before = type(state)(*(part[:, :, :1] for part in state))
    alone, after_alone = run(inputs, index[:9], lengths[:1], before)
    assert all(torch.equal(one, both[:9]) for one, both in zip(alone, outputs, strict=True))
    assert all(torch.equal(one, both[:, :, :1]) for one, both in zip(after_alone, after, strict=True))


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


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("changes", SIZES)
def test_weights_bit_by_bit(changes, precision):
    stack = random_stack(**changes)
    for direction, layers in enumerate(frozen_layers(stack, precision)):
        for layer, reference in zip(layers, stack.layers(direction), strict=True):
            weights = layer.weights()
            assert weights.keys() == dict(reference.named_parameters()).keys()
            for name, weight in reference.named_parameters():
                assert torch.equal(weights[name], weight)


# The layout of a batch


@pytest.mark.parametrize("lengths", [[3, 11, 1, 26, 11], [1], [2, 2, 2]])
def test_packed_as_pytorch_packs(lengths):
    lengths = torch.tensor(lengths)
    rows = torch.arange(int(lengths.sum()))
    sequences = list(rows.split(lengths.tolist()))
    steps = PackedSteps.of(lengths)
    for direction in range(2):
        directed = [part.flip(0) if direction else part for part in sequences]
        ordered = [directed[number] for number in steps.order]
        packed = pack_padded_sequence(
            pad_sequence(ordered, batch_first=True), lengths[steps.order], batch_first=True
        )
        assert steps.batch_sizes == packed.batch_sizes.tolist()
        assert torch.equal(steps.rows[direction], packed.data)
        assert torch.equal(steps.rows[direction][steps.indices[direction]], rows)
    pair = steps.rows[0].unsqueeze(1), steps.rows[1].unsqueeze(1)
    assert torch.equal(steps.unpacked(pair), torch.stack([rows, rows], dim=1))


def test_sentences_between_bos_and_eos():
    ids, lengths, bos_eos = torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([3, 1]), torch.tensor([1, 2])
    steps, extended, wanted = read_steps(ids, lengths, bos_eos)
    assert steps.tolist() == [1, 5, 6, 7, 2, 1, 8, 2]
    assert extended.tolist() == [5, 3]
    assert steps[wanted].tolist() == [5, 6, 7, 8]
    steps, unchanged, wanted = read_steps(ids, lengths, bos_eos, has_bos_eos=True)
    assert steps[wanted].tolist() == steps.tolist() == [5, 6, 7, 8]
    assert unchanged.tolist() == [3, 1]


def test_steps_in_both_orders():
    assert steps_in_order([3, 2, 2]) == [(0, 3, 0, 0, 2), (3, 5, 0, 2, 2), (5, 7, 3, 2, 0)]
    assert steps_in_order([3, 2, 2], backward=True) == [(5, 7, 5, 0, 2), (3, 5, 5, 2, 2), (0, 3, 3, 2, 0)]
