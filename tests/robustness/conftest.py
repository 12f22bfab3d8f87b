"""
Property tests are the same in every run, and short; `make fuzz` makes them long, and draws by chance.
"""

import json
from pathlib import Path

import pytest
from allennlp.models.archival import archive_model
from hypothesis import HealthCheck, settings

from elmo_tasks.common.files import bundled
from tests.ner.archives import write_run
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


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a tiny NER model, with its `model.tar.gz`."""
    folder = tmp_path_factory.mktemp("run") / "run"
    write_run(folder, seed=0, bilm=bundled("fixtures/elmo"))
    archive_model(folder)
    return folder


@pytest.fixture
def config(run: Path) -> dict:
    """The content of its config."""
    return json.loads((run / "config.json").read_text())
