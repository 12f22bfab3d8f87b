"""The stacked biLSTM on a CPU: one kernel for batches, one for a lone sentence."""

import torch

from elmo_tasks.elmo.inference.batch_lstm import Directions, run_batch
from elmo_tasks.elmo.inference.lone_lstm import LoneLstm
from elmo_tasks.elmo.inference.lstm_layer import Pack
from elmo_tasks.elmo.model.lstm import LstmState


class CpuLstm:
    """
    Runs the stacked biLSTM on a CPU: `run_batch` for several sequences, `LoneLstm` for one.

    # Parameters

    directions : the layers of both directions, from the lowest.
    pack : puts a weight into the form in which it is multiplied with.
    skip : a layer's inputs are added to its outputs, from the second layer on.
    """

    def __init__(self, directions: Directions, pack: Pack, *, skip: bool) -> None:
        self._directions = directions
        self._lone = LoneLstm(directions, pack)
        self._skip = skip

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        *Shape:* distinct `inputs` `(inputs, projection_dim)`, the `index` of each step's, `(steps,)`, the
        sequences end to end, and their `lengths` `(batch,)`, none of them 0. Returns the output of each
        layer, `(steps, 2 projection_dim)`, and the state behind the last step of each sequence.
        """
        if len(lengths) == 1:
            return self._lone(inputs[index], state, skip=self._skip)
        return run_batch(self._directions, inputs, index, lengths, state, skip=self._skip)
