"""Processors, devices, threads, and the progress of what a process does."""

import os
import signal
import sys
import time
from threading import get_ident
from types import SimpleNamespace

import pytest
import torch

from elmo_tasks.common import progress
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import (
    chosen_device,
    cpu_count,
    device_name,
    gpu_index,
    run_in_two_threads,
    single_threaded,
)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_the_processors_that_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cpu_count() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert cpu_count() == len(allowed)


@pytest.mark.parametrize(("terminal", "notebook"), [(False, False), (True, False), (False, True)])
def test_notebooks_are_like_terminals(monkeypatch, terminal, notebook):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: terminal))
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert bool(progress.log_options()) is not (terminal or notebook)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3569, "59 min"),
        (3571, "1 h 0 min"),
        (4320, "1 h 12 min"),
        (86_370, "1 d 0 h"),
        (300_000, "3 d 11 h"),
    ],
)
def test_duration(seconds, text):
    assert progress.duration(seconds) == text


def test_one_thread_for_each_operation_and_two_for_both_halves():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with single_threaded():
            assert torch.get_num_threads() == 1
            shares = run_in_two_threads(lambda number, threads: (number, threads, get_ident()))
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert [share[:2] for share in shares] == [(0, 2), (1, 1)]
    assert len({get_ident(), *(thread for _, _, thread in shares)}) == 3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer here")
def test_a_signal_waits_for_both_halves():
    """Python aborts if it ends while another thread computes."""
    done, before = [], torch.get_num_threads()
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    torch.set_num_threads(2)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_two_threads(lambda number, _threads: (time.sleep(0.5), done.append(number)))
        assert sorted(done) == [0, 1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        torch.set_num_threads(before)


DEVICES = {
    **dict.fromkeys(("cpu", None, -1, "-1", torch.device("cpu")), -1),
    **dict.fromkeys(("cuda", 0, "0"), 0),
    **dict.fromkeys(("cuda:1", 1, torch.device("cuda", 1)), 1),
}


@pytest.mark.parametrize(("device", "number"), DEVICES.items(), ids=map(repr, DEVICES))
def test_names_and_numbers(device, number):
    assert gpu_index(device) == number
    assert torch.device(device_name(device)).type == ("cpu" if number < 0 else "cuda")


@pytest.mark.parametrize("device", [True, 1.5, -2, "gpu", "cuda:x", ""])
def test_what_is_no_device(device):
    with pytest.raises(ElmoError, match=r"^cuda_device: "):
        gpu_index(device)
    with pytest.raises(ElmoError, match=r"^--device: .* cannot be used"):
        chosen_device(device, option="--device")
