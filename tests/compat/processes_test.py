import os
import signal
import time

import torch

from elmo_tasks.common.processes import end_with_parent

CONTEXT = torch.multiprocessing.get_context("fork")


def _wait(channel):
    end_with_parent()
    channel.send("ready")
    time.sleep(60)


def _start_and_be_killed(channel):
    CONTEXT.Process(target=_wait, args=(channel,)).start()
    time.sleep(60)


def test_a_process_ends_with_the_one_that_started_it():
    receiver, sender = CONTEXT.Pipe(duplex=False)
    parent = CONTEXT.Process(target=_start_and_be_killed, args=(sender,))
    parent.start()
    sender.close()
    assert receiver.poll(30)
    assert receiver.recv() == "ready"
    os.kill(parent.pid, signal.SIGKILL)
    # At the end of the pipe, since nobody can write to it any more
    assert receiver.poll(30)
