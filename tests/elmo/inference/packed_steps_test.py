import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from elmo_tasks.elmo.inference.cpu_lstm import PackedSteps, marked_steps


@pytest.mark.parametrize("lengths", [[3, 11, 1, 26, 11], [1], [2, 2, 2]])
def test_as_pytorch_packs(lengths):
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


def test_unpacked_lays_sequences_end_to_end():
    steps = PackedSteps.of(torch.tensor([2, 4, 1]))
    values = torch.randn(7, 3), torch.randn(7, 3)
    packed = values[0][steps.rows[0]], values[1][steps.rows[1]]
    assert torch.equal(steps.unpacked(packed), torch.cat(values, dim=1))


def test_marked_steps():
    ids = torch.tensor([[5, 6, 7], [8, 0, 0]])
    steps, is_token = marked_steps(ids, torch.tensor([3, 1]), torch.tensor([1, 2]))
    assert steps.tolist() == [1, 5, 6, 7, 2, 1, 8, 2]
    assert steps[is_token].tolist() == [5, 6, 7, 8]
