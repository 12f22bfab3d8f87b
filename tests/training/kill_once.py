"""A callback for whole runs in processes of their own."""

import os
import signal
from pathlib import Path

from allennlp.training import TrainerCallback


@TrainerCallback.register("kill_once")
class KillOnce(TrainerCallback):
    """Kills the process at the end of the second epoch, unless a file beside the run's folder is there."""

    def on_epoch(self, trainer, metrics, epoch, **kwargs):
        killed = Path(self.serialization_dir).with_suffix(".killed")
        if epoch == 1 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
