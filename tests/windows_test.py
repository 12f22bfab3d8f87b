"""The suite on Windows, which is imitated, see `imitated_windows`. Nothing was tried on a real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which files are open")
def test_nothing_of_posix_is_needed(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = {"PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "tests.imitated_windows"]
    subprocess.run(command, cwd=tmp_path, env=environment() | own, capture_output=True, check=True)
    assert json.loads((tmp_path / "problems.json").read_text()) == {}
    assert set(os.listdir(temporary)) <= {"torchinductor_unknown_user"}
    assert not list(tmp_path.rglob("*.partial"))
