import os
import signal
import threading
import time

import pytest
import torch

from elmo_tasks.elmo.inference import frozen_bilm
from elmo_tasks.elmo.inference.character_cnn import WordCache
from tests.elmo.files import batch, frozen, random_bilm, trained

IDS = batch([["a", "cat"], ["sat"]])


def same_in_a_fork(bilm, expected):
    """Whether a forked process computes the expected layers, within ten seconds."""
    process = os.fork()
    if not process:
        signal.alarm(10)
        # PyTorch's own threads are not here.
        torch.set_num_threads(1)
        os._exit(0 if torch.equal(bilm.encode(IDS), expected) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@pytest.mark.parametrize(("owner", "step"), [(frozen_bilm, "Kernels"), (WordCache, "_reserve")])
@pytest.mark.parametrize("trainable", [False, True])
def test_a_process_forks_while_a_thread_computes(monkeypatch, owner, step, trainable):
    model = random_bilm()
    expected = frozen(model).encode(IDS)
    bilm = trained(model).requires_grad_(False).eval() if trainable else frozen(model)
    plain, within = getattr(owner, step), threading.Event()

    def slow(*arguments):
        within.set()
        time.sleep(0.2)
        return plain(*arguments)

    monkeypatch.setattr(owner, step, slow)
    thread = threading.Thread(target=bilm.encode, args=(IDS,))
    thread.start()
    assert within.wait(10)
    assert same_in_a_fork(bilm, expected)
    thread.join()
