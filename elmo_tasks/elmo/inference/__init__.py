"""
The engine of the biLM: packed weights, a cache of words, and kernels for batches, single sequences, GPUs and
training, side by side, each tested against `elmo.model`.
"""

from elmo_tasks.common.packed_weights import PRECISIONS
from elmo_tasks.elmo.inference.frozen_bilm import FrozenBiLm, private_state_dict
from elmo_tasks.elmo.inference.trained_bilm import TrainedBiLm

__all__ = ["PRECISIONS", "FrozenBiLm", "TrainedBiLm", "private_state_dict"]
