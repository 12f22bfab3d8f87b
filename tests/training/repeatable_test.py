from types import SimpleNamespace

import torch

from elmo_tasks.training import RepeatableCallback

TRAINER = SimpleNamespace()


def draws(callback: RepeatableCallback, epoch: int, start: int, stop: int) -> list[float]:
    """What each batch from `start` to `stop` draws."""
    drawn = []
    for batch in range(start, stop):
        drawn.append(torch.rand(1).item())
        callback.on_batch(TRAINER, [], [], {}, epoch, batch + 1, is_training=True)
    return drawn


def started(seed: int = 7) -> RepeatableCallback:
    callback = RepeatableCallback("folder")
    torch.manual_seed(seed)
    callback.on_start(TRAINER)
    return callback


def test_resumes_within_and_between_epochs():
    whole = started()
    first = draws(whole, 0, 0, 4)
    # Validation draws as it likes.
    torch.rand(100)
    whole.on_batch(TRAINER, [], [], {}, 0, 1, is_training=False)
    whole.on_epoch(TRAINER, {}, 0)
    second = draws(whole, 1, 0, 4)

    for epoch, batch, expected in ((0, 2, first[2:]), (1, 0, second), (1, 3, second[3:])):
        killed = started()
        draws(killed, 0, 0, 4 if epoch else batch)
        if epoch:
            killed.on_epoch(TRAINER, {}, 0)
            draws(killed, 1, 0, batch)
        resumed = RepeatableCallback("folder")
        resumed.load_state_dict(killed.state_dict())
        torch.manual_seed(7)
        torch.rand(50)
        resumed.on_start(TRAINER)
        assert draws(resumed, epoch, batch, 4) == expected


def test_batches_epochs_and_seeds_differ():
    callback = started()
    drawn = draws(callback, 0, 0, 3)
    callback.on_epoch(TRAINER, {}, 0)
    drawn += draws(callback, 1, 0, 3) + draws(started(8), 0, 0, 3)
    assert len(set(drawn)) == 9
