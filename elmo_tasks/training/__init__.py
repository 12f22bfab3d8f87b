"""Training runs that can be repeated, survive a kill, and run in parallel."""

from elmo_tasks.training.callbacks import MlflowCallback, RepeatableCallback, ShareCoresCallback
from elmo_tasks.training.checkpointer import SafeCheckpointer
from elmo_tasks.training.optimizers import FusedAdam, LinearWithWarmupShare
from elmo_tasks.training.sampling import ElmoBucketSampler, GroupedBucketSampler, SampleReader

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
