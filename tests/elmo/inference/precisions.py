"""The precisions of a frozen biLM's products that this processor has."""

import pytest

from elmo_tasks.common import packed_weights
from elmo_tasks.common.packed_weights import onednn_has_bfloat16

needs_bfloat16 = pytest.mark.skipif(not onednn_has_bfloat16(), reason="no bfloat16 here")
PRECISIONS = ["float32", pytest.param("bfloat16", marks=needs_bfloat16)]
REFUSAL = ("precision 'bfloat16'", "AVX-512", "--precision float32")
"""The error where there is no bfloat16 names the precision, the reason and the remedy."""


def take_bfloat16_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none, nothing is taken, so that it is the processor that is tested."""
    if onednn_has_bfloat16():
        monkeypatch.setattr(packed_weights, "onednn_has_bfloat16", lambda: False)
