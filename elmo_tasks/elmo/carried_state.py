"""The LSTM state that goes on from batch to batch, as the original ELMo has it."""

from threading import Lock
from typing import Any

import torch

from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import ElmoError, LstmState


class CarriedState:
    """Row i of a batch goes on where row i of the batch before it ended."""

    def __init__(self) -> None:
        self.value: LstmState | None = None
        """Where the rows of the batch before ended; `None` before the first batch."""
        self._turn = Lock()

    def layers(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """
        *Shape:* `ids` `(batch, tokens, *id)` to `(layers, batch, tokens, dim)`; a row that no batch had
        before begins at `start`, of a batch of one.

        # Raises
        `ElmoError`: another call is under way.
        """
        if not self._turn.acquire(blocking=False):
            raise ElmoError(
                "found two calls at once of an Elmo with stateful: true, which carries its state from call "
                "to call; expected one after the other"
            )
        try:
            layers, state = bilm(ids, self._of_rows(len(ids), start))
            self._go_on_from(state)
        finally:
            self._turn.release()
        return layers

    def _of_rows(self, batch: int, start: LstmState) -> LstmState:
        """Where the rows of a batch go on: `(layers, 2, batch, ...)`."""
        fresh = LstmState(*(part.expand(-1, -1, batch, -1) for part in start))
        if self.value is None:
            return fresh
        # The rows known so far, and fresh ones where the batch has more.
        return LstmState(
            *(
                torch.cat([old[:, :, :batch].to(new), new[:, :, old.size(2) :]], dim=2)
                for old, new in zip(self.value, fresh, strict=True)
            )
        )

    def _go_on_from(self, state: LstmState) -> None:
        """Rows that the batch did not have keep their state, as in the original."""
        rows = state.hidden.size(2)
        ended = LstmState(*(part.detach() for part in state))
        before = self.value or ended
        self.value = LstmState(
            *(
                torch.cat([new, old[:, :, rows:].to(new)], dim=2)
                for new, old in zip(ended, before, strict=True)
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.value = state["value"]
