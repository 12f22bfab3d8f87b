import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.inference.kernels import Kernels
from elmo_tasks.elmo.model import BiLm, BiLmOptions
from elmo_tasks.elmo.model.characters import word_ids
from tests.elmo.files import VARIANTS, batch, changed, make_word_files, random_bilm, read_bilm
from tests.elmo.inference.layers import assert_near, model_result
from tests.elmo.inference.precisions import PRECISIONS, take_bfloat16_away

LENGTHS = torch.tensor([3, 1, 4])
WORDS = ["The", "cat", "sat", "Yes", "the", "cat", "and", "the"]
"""Of three sentences, end to end."""


def kernels_of(bilm: BiLm, precision: str = "float32") -> Kernels:
    with torch.device("meta"):
        blueprint = BiLm(options=bilm.options)
    weights = {name: weight.detach().clone() for name, weight in bilm.state_dict().items()}
    kernels = Kernels(blueprint, weights, precision)
    assert not weights
    return kernels


def random_state(bilm: BiLm, number: int):
    torch.manual_seed(number)
    state = bilm.initial_state(number)
    return type(state)(*(0.1 * torch.randn_like(part) for part in state))


def check_run(bilm: BiLm, ids: torch.Tensor) -> None:
    bilm, state = bilm.requires_grad_(False), random_state(bilm, len(LENGTHS))
    vectors, index, outputs, after = kernels_of(bilm).run(ids, LENGTHS, state)
    assert len(vectors) == len(set(WORDS))
    expected = bilm.token_encoder(ids)
    torch.testing.assert_close(vectors[index], expected, atol=1e-6, rtol=1e-5)
    assert_near((outputs, after), model_result(bilm.lstm, expected, torch.arange(len(ids)), LENGTHS, state))


@pytest.mark.parametrize("changes", VARIANTS)
def test_equals_the_model(changes):
    check_run(random_bilm(**changes), batch([WORDS])[0])


def test_equals_the_model_that_reads_words(tmp_path):
    files = make_word_files(tmp_path)
    # Words of its vocabulary, so that each has a vector of its own
    words = ["The", "cat", "on", "mat", "the", "cat", "and", "the"]
    assert len(set(words)) == len(set(WORDS))
    check_run(read_bilm(**files), torch.from_numpy(word_ids(words)))


def test_behind_the_first_mark():
    bilm = random_bilm().requires_grad_(False)
    kernels, start = kernels_of(bilm), random_state(bilm, 1)
    behind = kernels.state_after_bos(start)
    for direction, ids in enumerate(bilm.token_encoder.bos_eos_ids):
        vector = bilm.token_encoder(ids.unsqueeze(0)).unsqueeze(0)
        _, after = bilm.lstm(vector, torch.tensor([1]), start)
        for found, expected in zip(behind, after, strict=True):
            torch.testing.assert_close(found[:, direction], expected[:, direction], atol=1e-6, rtol=1e-5)
    again = kernels.state_after_bos(type(start)(*(part.clone() for part in start)))
    assert all(map(torch.equal, again, behind))
    other = kernels.state_after_bos(bilm.initial_state(1))
    assert not torch.equal(other.hidden, behind.hidden)
    # What it was given may change.
    start.hidden.zero_()
    assert not torch.equal(kernels.state_after_bos(start).hidden, behind.hidden)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("changes", VARIANTS)
def test_weights_bit_by_bit(changes, precision):
    bilm = random_bilm(**changes)
    weights = kernels_of(bilm, precision).weights()
    assert weights.keys() == bilm.state_dict().keys()
    assert all(torch.equal(weights[name], weight) for name, weight in bilm.state_dict().items())


def test_no_weight_is_lost_where_there_is_no_such_precision(monkeypatch):
    take_bfloat16_away(monkeypatch)
    blueprint = BiLm(options=BiLmOptions.read(changed()))
    weights = dict(blueprint.state_dict())
    with pytest.raises(ElmoError, match="precision is 'bfloat16'"):
        Kernels(blueprint, weights, "bfloat16")
    assert weights.keys() == blueprint.state_dict().keys()
