"""`allennlp predict`: a line that is wrong names itself, and no result before it is lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor
from hypothesis import given
from hypothesis import strategies as st

from elmo_tasks.data.input_files import InputError
from elmo_tasks.pipeline.command import predict_file
from tests.conftest import environment
from tests.robustness.attempt import UNREADABLE

GOOD = [b'{"sentence": "Ana flew to Lisbon."}', b'{"tokens": ["Dr.", "Zo\xc3\xab"]}', b'{"sentence": " "}']
BAD = {
    **{kind: b'{"sentence": "x", "more": ' + value + b"}" for kind, value in UNREADABLE.items()},
    "half a pair in a word": rb'{"tokens": ["a", "\ud83d"]}',
    "no UTF-8": b'{"sentence": "caf\xe9"}',
    "a zero byte": b"\0",
    "cut": b'{"sentence": "x',
    "a list": b"[1]",
    "another field": b'{"text": "x"}',
    "another type": b'{"sentence": 3}',
    "a list of numbers": b'{"tokens": [3]}',
    "a word of a million letters": b'{"tokens": ["%s"]}' % (b"x" * 1_000_000),
    "a sentence of one such word": b'{"sentence": "%s"}' % (b"x" * 1_000_000),
}


@pytest.fixture(scope="module")
def predictor(run):
    return Predictor.from_path(str(run / "model.tar.gz"), import_plugins=False)


def outcome(
    predictor: Predictor, folder: Path, content: bytes, batch_size: int = 1
) -> tuple[list[dict], str]:
    """The results that were written, and the error."""
    (folder / "in.jsonl").write_bytes(content)
    message = ""
    try:
        predict_file(predictor, str(folder / "in.jsonl"), str(folder / "out.jsonl"), batch_size=batch_size)
    except ConfigurationError as error:
        message = str(error)
    return [json.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()], message


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_the_lines_before_a_bad_one(predictor, tmp_path, line, batch_size):
    content = b"\n".join([*GOOD, b"", line, *GOOD])
    results, message = outcome(predictor, tmp_path, content, batch_size)
    assert len(results) == 3
    assert message.startswith(f"{tmp_path}/in.jsonl, line 5: ")
    assert len(message) < 500
    message.encode()


@given(content=st.binary(max_size=200), position=st.integers(0), size=st.integers(1, 4))
def test_any_bytes(predictor, tmp_path, content, position, size):
    text = b"\n".join(GOOD * 2)
    position %= len(text)
    results, message = outcome(predictor, tmp_path, text[:position] + content + text[position:], size)
    assert len(results) >= text[:position].count(b"\n")
    assert not message or message.startswith(f"{tmp_path}/in.jsonl, line ")


def test_a_folder_is_no_input(predictor, tmp_path):
    output = tmp_path / "out.jsonl"
    with pytest.raises(InputError, match=f"^{re.escape(str(tmp_path))} is a folder"):
        predict_file(predictor, str(tmp_path), str(output))
    assert not output.exists()


def start(run: Path, source: str | Path, *arguments: str, **pipes) -> subprocess.Popen:
    """The command itself."""
    command = [sys.executable, "-m", "allennlp", "predict", run / "model.tar.gz", source, *arguments]
    pipes |= {"stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], env=environment(), **pipes)


@pytest.mark.slow
def test_how_the_command_ends(run, tmp_path):
    (tmp_path / "in").write_bytes(GOOD[0])
    read, write = os.pipe()
    with open("/dev/full", "wb") as full:
        closed, filled = (start(run, tmp_path / "in", stdout=output) for output in (write, full))
    os.close(write)
    os.close(read)
    waiting = start(run, "-", "--silent", "--output-file", str(tmp_path / "out"), stdin=subprocess.PIPE)
    with waiting, filled, closed:
        waiting.stdin.write(b"\n".join(GOOD * 2).decode() + "\n")
        waiting.stdin.flush()
        until = time.monotonic() + 120
        while not ((tmp_path / "out").exists() and (tmp_path / "out").read_bytes().count(b"\n") == 6):
            assert waiting.poll() is None, waiting.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.05)
        waiting.send_signal(signal.SIGTERM)
        endings = {
            closed: (1, ""),
            filled: (1, "error: [Errno 28] No space left on device"),
            waiting: (143, "terminated"),
        }
        for process, (code, ending) in endings.items():
            assert process.wait(timeout=120) == code
            errors = process.stderr.read()
            assert errors.rstrip("\n").rpartition("\n")[2] == ending
            assert not {"Traceback", "Exception ignored"} & set(errors.split(" "))
    assert all(json.loads(line) for line in (tmp_path / "out").read_bytes().splitlines())
