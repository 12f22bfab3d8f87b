"""Runs code in a process that is forked from one whose PyTorch has threads."""

import subprocess
import sys

_CODE = """
import multiprocessing, torch
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
    code = _CODE.format(setup=setup, call=call)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
