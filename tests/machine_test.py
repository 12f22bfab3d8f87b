import os
import resource
import sys

import pytest

from elmo_tasks.common.processes import cpu_count, peak_memory


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_the_processors_that_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cpu_count() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert cpu_count() == len(allowed)


def test_a_system_that_does_not_say_which(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cpu_count() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpu_count() == 1


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_unit_of_the_peak_memory(monkeypatch, system, unit):
    monkeypatch.setattr(sys, "platform", system)
    measured = peak_memory()
    assert 0 < measured <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    assert measured % unit == 0
