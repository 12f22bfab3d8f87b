"""What a training run needs to be repeatable, to survive a kill, and to run in parallel."""

from elmo_tasks.training.checkpointer import SafeCheckpointer
from elmo_tasks.training.deterministic import RepeatableCallback
from elmo_tasks.training.mlflow import MlflowCallback
from elmo_tasks.training.optimizers import FusedAdam, LinearWithWarmupShare
from elmo_tasks.training.sample_reader import SampleReader
from elmo_tasks.training.samplers import ElmoBucketSampler, GroupedBucketSampler
from elmo_tasks.training.share_cores import ShareCoresCallback

__all__ = [
    "ElmoBucketSampler",
    "FusedAdam",
    "GroupedBucketSampler",
    "LinearWithWarmupShare",
    "MlflowCallback",
    "RepeatableCallback",
    "SafeCheckpointer",
    "SampleReader",
    "ShareCoresCallback",
]
