"""`allennlp elmo predict --engine ray` writes the lines of `allennlp predict`."""

import json
import threading
from pathlib import Path

import pytest
import torch
from allennlp.models.archival import archive_model

from elmo_tasks.common.files import bundled
from tests.errors import mentions
from tests.ner.archives import write_run


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archive") / "run"
    write_run(folder, seed=0, bilm=bundled("fixtures/elmo"))
    archive_model(folder)
    return folder / "model.tar.gz"


@pytest.fixture(autouse=True)
def one_thread():
    """As a worker has: the last digits of the tasks' models depend on it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def lines() -> list[str]:
    words = [
        "Ana",
        "Silva",
        "flew",
        "to",
        "Lisbon",
        "with",
        "Peter",
        "Blackburn",
        "of",
        "the",
        "United",
        "Nations",
        "yesterday",
        ".",
    ]
    return [json.dumps({"tokens": words[n % 7 : 8 + n % 5], "n": n}) for n in range(40)]


def by_allennlp(elmo, archive: Path, source: str, output: str, *arguments) -> tuple[int, str]:
    code = elmo("predict", archive, source, output, *arguments)
    return code, Path(output).read_text()


def test_the_lines_of_allennlp(local_ray, elmo, archive, lines, tmp_path, monkeypatch, capsys):
    """Batches with their padding are the same, so results are to the last digit; blank lines, too."""
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text("".join(line + "\n" + "\n \n" * (n % 9 == 4) for n, line in enumerate(lines)))
    command = ["--batch-size", 3]
    on_ray = [*command, "--engine", "ray", "--workers", 1, "--shard-bytes", 300]
    code, expected = by_allennlp(elmo, archive, "in.jsonl", "expected", *command)
    assert code == 0
    assert expected.count("\n") == len(lines)
    assert elmo("predict", archive, "in.jsonl", "out", *on_ray) == 0
    assert "out: 40 lines, of " in capsys.readouterr().out
    assert Path("out").read_text() == expected
    assert not Path("out.partial").exists()
    assert elmo("predict", archive, "in.jsonl", "out", *on_ray) == 1
    assert mentions(capsys.readouterr().err, "out exists", "--force")
    assert elmo("predict", archive, "in.jsonl", "out", *on_ray, "--resume") == 0
    assert mentions(capsys.readouterr().out, "out is there", "--force")


def test_an_error_names_its_line(local_ray, elmo, archive, lines, tmp_path, monkeypatch, capsys):
    """The results before it are there."""
    monkeypatch.chdir(tmp_path)
    lines[25], lines[31] = '{"tokens": 7}', "no JSON"
    Path("in.jsonl").write_text("\n" + "\n".join(lines))
    code, expected = by_allennlp(elmo, archive, "in.jsonl", "expected", "--batch-size", 4)
    message = capsys.readouterr().err
    assert code == 1
    assert "line 26 " in message
    assert expected.count("\n") == 25
    on_ray = ["--batch-size", 4, "--engine", "ray", "--workers", 1, "--shard-bytes", 300]
    assert elmo("predict", archive, "in.jsonl", "out", *on_ray) == 1
    assert message.strip().splitlines()[-1] in capsys.readouterr().err
    # Ray may end at once: nothing reads from it any more.
    assert not [thread.name for thread in threading.enumerate() if "Executor" in thread.name]
    assert Path("out").read_text() == expected
