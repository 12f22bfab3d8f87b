"""The suite on an imitation of Windows (`imitated_windows`). It was never tried on a real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which files are open")
def test_nothing_of_posix_is_needed(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = {"PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(temporary)}
    # By its path: site-packages may hold other `tests`.
    command = [sys.executable, "-P", str(Path(__file__).with_name("imitated_windows.py"))]
    subprocess.run(command, cwd=tmp_path, env=environment() | own, check=True)
    assert json.loads((tmp_path / "problems.json").read_text()) == {}
    assert all(name.startswith("torchinductor_") for name in os.listdir(temporary))
    assert not list(tmp_path.rglob("*.partial"))
