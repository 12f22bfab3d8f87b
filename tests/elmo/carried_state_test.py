"""The state that goes on from batch to batch."""

import copy

import torch

from elmo_tasks.elmo.embedder import CarriedState
from elmo_tasks.elmo.model import LstmState
from tests.elmo.files import SENTENCES, batch, frozen, random_bilm, trained

FILLED = [words for words in SENTENCES if words]
BATCHES = [FILLED, FILLED[:1], FILLED[1:3], FILLED * 2]


def test_rows_go_on_where_they_ended():
    """Each row as a text of its own."""
    model = random_bilm()
    carried = CarriedState()
    texts: list[LstmState] = []
    for sentences in BATCHES:
        layers = carried.encode(frozen(model), batch(sentences), model.initial_state(1))
        for row, words in enumerate(sentences):
            before = texts[row] if row < len(texts) else model.initial_state(1)
            with torch.no_grad():
                expected, after = model(batch([words]), before)
            texts[row : row + 1] = [after]
            torch.testing.assert_close(layers[:, row, : len(words)], expected[:, 0], atol=1e-6, rtol=1e-6)
    assert carried.value is not None
    assert carried.value.hidden.size(2) == 2 * len(FILLED)


def test_no_graph_is_carried():
    model = trained(random_bilm())
    carried = CarriedState()
    for sentences in BATCHES:
        layers = carried.encode(model, batch(sentences), model.initial_state(1))
        # Else the second would go through the graph of the first, which is gone
        layers.square().sum().backward()


def test_a_copy_goes_on_by_itself():
    bilm = frozen(random_bilm())
    carried = CarriedState()
    carried.encode(bilm, batch(FILLED), bilm.initial_state(1))
    other = copy.deepcopy(carried)
    ids = batch(FILLED[:2])
    expected = carried.encode(bilm, ids, bilm.initial_state(1))
    carried.encode(bilm, ids, bilm.initial_state(1))
    assert torch.equal(other.encode(bilm, ids, bilm.initial_state(1)), expected)


def test_rows_of_a_model_that_is_moved_go_with_it():
    carried = CarriedState()
    here = LstmState(torch.ones(1, 2, 1, 3), torch.ones(1, 2, 1, 4))
    there = LstmState(*(part.to("meta") for part in here))
    for start, rows in ((here, 3), (there, 2), (there, 3)):
        carried.encode(lambda ids, state: (ids, state), torch.ones(rows, 1), start)
    assert carried.value is not None
    assert carried.value.hidden.device.type == "meta"
    assert carried.value.cell.shape == (1, 2, 3, 4)
