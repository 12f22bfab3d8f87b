"""Runs code in a process that is forked from one whose PyTorch has threads."""

from tests.forked import FORKED

_CODE = """
import multiprocessing, torch
from elmo_tasks.common import machine
assert not machine._one_thread_in_forks
torch.set_num_threads(2)
{setup}
{call}(sentences)
child = multiprocessing.get_context("fork").Process(target={call}, args=[sentences])
child.start()
child.join(60)
alive = child.is_alive()
child.kill()
assert not alive and child.exitcode == 0
"""


def check_in_a_fork(setup: str, *, call: str) -> None:
    """
    Calls a function with `sentences`, both of which `setup` makes, and again in a fork. PyTorch's threads do
    not outlive the fork; a child that waited for them would hang.
    """
    process = FORKED.Process(target=exec, args=(_CODE.format(setup=setup, call=call), {}))
    process.start()
    process.join(120)
    process.kill()
    assert process.exitcode == 0
