"""
Property tests are the same in every run, and short; `make fuzz` makes them long, and draws by chance.
"""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.robustness.attempt import FUZZ

settings.register_profile(
    "robustness",
    max_examples=60 * FUZZ,
    derandomize=FUZZ == 1,
    database=None,
    deadline=None,
    # The fixtures are files that no example changes.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("robustness")


@pytest.fixture
def config(run: Path) -> dict:
    """The content of its config."""
    return json.loads((run / "config.json").read_text())
