from types import SimpleNamespace

import pytest
import torch
from allennlp.common import Params
from allennlp.training import TrainerCallback

from elmo_tasks.training import share_cores


@pytest.fixture
def threads_of(monkeypatch):
    """How many threads a process has after the start of a training, of so many that it had."""

    def start(before, *, workers=None, device="cpu"):
        threads = [before]
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
        monkeypatch.setattr(torch, "set_num_threads", threads.append)
        monkeypatch.setattr(share_cores, "is_distributed", lambda: workers is not None)
        monkeypatch.setenv("ALLENNLP_PROCS_PER_NODE", str(workers))
        callback = TrainerCallback.from_params(
            Params({"type": "elmo_share_cores"}), serialization_dir="folder"
        )
        callback.on_start(SimpleNamespace(cuda_device=torch.device(device)))
        return threads[-1]

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return start


@pytest.mark.parametrize(("workers", "share"), [(1, 16), (2, 8), (3, 5), (16, 1), (40, 1)])
def test_each_worker_has_its_share(threads_of, workers, share):
    assert threads_of(16, workers=workers) == share


def test_where_nothing_is_to_be_shared(threads_of, monkeypatch):
    assert threads_of(16) == 16
    assert threads_of(16, workers=4, device="cuda") == 16
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert threads_of(7, workers=4) == 7
