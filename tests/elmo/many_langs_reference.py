"""The package `elmoformanylangs`, 0.0.4.post2, as it stands on its index: see `requirements.peers`."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@contextmanager
def reference(folder: Path, batch_size: int = 8) -> Iterator[Any]:
    """
    Its `Embedder`. It imports the package `overrides` for a mark without effect, and current releases of that
    refuse what is marked; here another mark stands in.
    """
    logging.getLogger("elmoformanylangs").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "overrides", SimpleNamespace(overrides=lambda method: method))
        package = pytest.importorskip("elmoformanylangs")
    yield package.Embedder(str(folder), batch_size=batch_size)
