"""What runs the biLM fast: kernels beside each other, each tested against the model."""

from elmo_tasks.elmo.inference.frozen_bilm import FrozenBiLm, private_state_dict
from elmo_tasks.elmo.inference.packed_weights import PRECISIONS
from elmo_tasks.elmo.inference.trained_bilm import TrainedBiLm

__all__ = ["PRECISIONS", "FrozenBiLm", "TrainedBiLm", "private_state_dict"]
