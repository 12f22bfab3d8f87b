"""Runs scripts, each in an interpreter that has imported PyTorch and nothing else."""

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.conftest import environment

_SERVER = """
import json, os, sys
import torch
for line in sys.stdin:
    script, *outputs = json.loads(line)
    if (child := os.fork()) == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for stream, output in enumerate(outputs, start=1):
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), stream)
code = 0
try:
    exec(script, {"__name__": "__main__"})
except SystemExit as end:
    code = end.code
except BaseException:
    sys.excepthook(*sys.exc_info())
    code = 1
for stream in sys.stdout, sys.stderr:
    stream.flush()
os._exit(code or 0)  # unloading PyTorch takes a second
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a fork of a process that has imported PyTorch; returns its output and exit code."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        server.stdin.write(json.dumps([script, *map(str, outputs)]) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess("script", code, *(output.read_text() for output in outputs))


@cache
def _server() -> subprocess.Popen[str]:
    """Starts the process that forks an interpreter for each script. It ends with this process."""
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
