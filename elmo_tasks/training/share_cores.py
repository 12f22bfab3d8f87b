"""Workers of a distributed run on one machine's CPU."""

import os
from typing import Any

import torch
from allennlp.common.util import is_distributed
from allennlp.training import GradientDescentTrainer, TrainerCallback

from elmo_tasks.common.strict_params import StrictParams


@TrainerCallback.register("elmo_share_cores")
class ShareCoresCallback(StrictParams, TrainerCallback):
    """
    Gives each worker its share of the cores. By default each one takes all of them, and workers that wait
    for each other's threads are many times slower than one process. Does nothing in a run of one process,
    on GPUs, or where `OMP_NUM_THREADS` is set.
    """

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        on_cpu = trainer.cuda_device.type == "cpu"
        if is_distributed() and on_cpu and "OMP_NUM_THREADS" not in os.environ:
            workers = int(os.environ.get("ALLENNLP_PROCS_PER_NODE", "1"))
            torch.set_num_threads(max(1, torch.get_num_threads() // workers))
