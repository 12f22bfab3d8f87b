import copy
import random
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from elmo_tasks.elmo import Elmo
from elmo_tasks.training import RepeatableCallback
from tests.elmo.files import SENTENCES, changed
from tests.elmo.files import batch as ids_of


class Run:
    """As much of a trainer and a model as the callback meets."""

    def __init__(self, seed: int = 7, state: dict | None = None) -> None:
        self.callback = RepeatableCallback("folder")
        if state is not None:
            self.callback.load_state_dict(state)
        self.model = nn.Dropout(0.5).train()
        torch.manual_seed(seed)
        self.callback.on_start(SimpleNamespace(model=self.model))
        # Another callback draws, too.
        torch.rand(random.randrange(10))

    def batches(self, epoch: int, start: int, stop: int, accumulated: int = 1) -> list[str]:
        """The dropout masks of some batches."""
        masks = []
        for batch in range(start, stop):
            masks += [str(self.model(torch.ones(99))) for _ in range(accumulated)]
            self.callback.on_batch(None, [], [], {}, epoch, batch + 1, is_training=True)
        return masks

    def evaluate(self) -> None:
        self.model.eval()(torch.ones(99))
        torch.rand(random.randrange(10))
        self.callback.on_batch(None, [], [], {}, 0, 1, is_training=False)
        self.model.train()


def whole_run(**options):
    run = Run(**options)
    first = run.batches(0, 0, 4)
    run.evaluate()
    run.callback.on_epoch(None, {}, 0)
    return first, run.batches(1, 0, 4)


@pytest.mark.parametrize(("epoch", "batch"), [(0, 2), (1, 0), (1, 3)])
def test_resumes_within_and_between_epochs(epoch, batch):
    killed = Run()
    killed.batches(0, 0, 4 if epoch else batch)
    if epoch:
        killed.callback.on_epoch(None, {}, 0)
        killed.batches(1, 0, batch)
    resumed = Run(state=killed.callback.state_dict())
    assert resumed.batches(epoch, batch, 4) == whole_run()[epoch][batch:]


def test_all_masks_differ():
    first, second = whole_run()
    other, _ = whole_run(seed=8)
    accumulated = Run().batches(2, 0, 2, accumulated=2)
    masks = [*first, *second, *other, *accumulated[1:]]
    assert len(set(masks)) == len(masks)


def test_the_state_of_a_stateful_elmo_goes_on(tmp_path):
    """As does that of the batch before the checkpoint, in a run of its own."""
    torch.manual_seed(3)
    elmo = Elmo(options_file=changed(), weight_file=None, stateful=True)
    again = copy.deepcopy(elmo)
    trainer = SimpleNamespace(model=nn.ModuleDict({"elmo": elmo}))
    callback = RepeatableCallback("folder")
    callback.on_start(trainer)
    elmo(ids_of(SENTENCES[:2]))
    torch.save(callback.state_dict(), tmp_path / "state.th")
    expected = elmo(ids_of(SENTENCES[3:])).input

    resumed = RepeatableCallback("folder")
    resumed.load_state_dict(torch.load(tmp_path / "state.th", weights_only=True))
    resumed.on_start(SimpleNamespace(model=nn.ModuleDict({"elmo": again})))
    assert torch.equal(again(ids_of(SENTENCES[3:])).input, expected)
