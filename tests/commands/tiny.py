"""The options of a tiny biLM, and the fixtures of the evaluation."""

from pathlib import Path

from elmo_tasks.common.files import bundled
from tests.elmo.files import make_files

FIXTURES = bundled("fixtures/evaluation").resolve()


def tiny(folder: Path) -> tuple[str, ...]:
    options_file, weight_file = make_files(folder / "bilm")
    return "--options-file", str(options_file), "--weight-file", str(weight_file)
