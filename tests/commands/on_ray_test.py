"""`embed` and `predict` with `--engine ray`, and shards whose workers die, on one real Ray."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs import engines
from elmo_tasks.jobs.engines import RayEngine
from elmo_tasks.jobs.runs import open_run
from tests.commands.texts import LINES, default_bilm, encode, tiny
from tests.conftest import environment
from tests.errors import mentions
from tests.jobs.stumbling import FullDisk, Stumble, attempts_before_an_error
from tests.readme_test import ALL_COMMANDS, in_one_epoch

pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")
from pyarrow import parquet as pq

from elmo_tasks.common.ray_cluster import connected, ray

pytestmark = pytest.mark.slow

BOM = "\ufeff"
SENTENCE = "Ana Silva flew to Lisbon with Peter Blackburn of the United Nations yesterday ."


@pytest.fixture(scope="module")
def on_cluster(cluster_address: str) -> Iterator[str]:
    """The address of a Ray with two processors, which the verbs in this process take."""
    with connected(cluster_address, cpus=2):
        yield cluster_address


# These two come before a Ray is connected.


def test_no_ray_at_the_address():
    with (
        pytest.raises(ConnectionError, match=r"^--ray-address 127\.0\.0\.1:1: "),
        connected("127.0.0.1:1", cpus=1),
    ):
        pass


def test_a_signal_ends_the_process_as_before(monkeypatch):
    def init(**options):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    before = signal.signal(signal.SIGTERM, handler := lambda *_: None)
    try:
        with connected(None, cpus=1):
            assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def rows(folder: Path) -> list[dict]:
    return pq.read_table(folder).to_pylist()


def vectors(row: dict) -> np.ndarray:
    return np.array(row["layers"], np.float32).reshape(row["shape"])


def kill_a_worker(folder: Path, ended: threading.Event) -> None:
    """The one that writes the first part; its file says which process it is."""
    while not ended.wait(0.01):
        for partial in folder.glob("_part-*.parquet.*"):
            os.kill(int(partial.name.rpartition(".")[2]), signal.SIGKILL)
            return


@pytest.fixture
def corpus(tmp_path):
    """Text, gzip and Parquet, of texts and of tokens; and the tokens of each line."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = [*LINES, *(f"line {n} of {n % 7} lines" for n in range(300))]
    (folder / "a.txt").write_bytes((BOM + "\r\n".join(lines)).encode())
    (folder / "b.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    pq.write_table(
        pa.table({"id": range(len(lines)), "text": lines}), folder / "c.parquet", row_group_size=99
    )
    pq.write_table(pa.table({"tokens": [line.split() for line in lines]}), folder / "d.parquet")
    return folder, [line.split() for line in lines]


def test_every_line_once_though_a_worker_is_killed(on_cluster, elmo, corpus, tmp_path, monkeypatch, capsys):
    """The vectors are those of the biLM, to the bit, as those in HDF5 are."""
    _, sentences = corpus
    monkeypatch.chdir(tmp_path)
    ended = threading.Event()
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path / "out", ended))
    killer.start()
    try:
        assert elmo("embed", "corpus", "out", "--engine", "ray", "--shard-bytes", 2000, "--workers", 2) == 0
    finally:
        ended.set()
        killer.join()
    shown = capsys.readouterr()
    assert f"out: {4 * len(sentences):,} sentences, " in shown.out
    bilm, written = default_bilm(), rows(Path("out"))
    names = ("a.txt", "b.gz", "c.parquet", "d.parquet")
    assert [(row["source"], row["line"]) for row in written] == [
        (f"corpus/{name}", line) for name in names for line in range(1, len(sentences) + 1)
    ]
    expected = [encode(bilm, [words])[0][:, 0].numpy() if words else None for words in sentences]
    for row, words, layers in zip(written, 4 * sentences, 4 * expected, strict=True):
        assert row["tokens"] == words
        assert row["shape"] == [3, len(words), 256]
        assert layers is None or np.array_equal(vectors(row), layers)
    manifest = json.loads(Path("out/_manifest.json").read_text())
    assert manifest["sentences"] == len(written)
    assert manifest["tokens"] == sum(map(len, 4 * sentences))
    parts = [f"part-{part['number']:06}.parquet" for part in manifest["parts"]]
    assert len(parts) > 8
    assert sorted(os.listdir("out")) == ["_manifest.json", "_plan.json", *parts]


def test_the_driver_is_killed(on_cluster, elmo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bilm = tiny(tmp_path)
    Path("in.txt").write_text("".join(f"line {n}\n" for n in range(12_000)))
    command = ["elmo", "embed", "in.txt", "out", *bilm, "--engine", "ray", "--shard-bytes", "4000"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "allennlp", *command, "--ray-address", on_cluster, "--workers", "1"],
        env=environment(),
    )
    try:
        while len(list(Path("out").glob("_part-*.json"))) < 3:
            assert driver.poll() is None
            time.sleep(0.01)
    finally:
        driver.kill()
        driver.wait()
    before = {path.name: path.stat().st_mtime_ns for path in Path("out").glob("part-*")}
    assert elmo(*command[1:]) == 1
    assert mentions(capsys.readouterr().err, "out holds", "--resume")
    assert elmo(*command[1:], "--resume", "--layers", "top") == 1
    assert "--layers (was all, is top)" in capsys.readouterr().err
    assert elmo(*command[1:], "--resume", "--workers", "1") == 0
    after = {path.name: path.stat().st_mtime_ns for path in Path("out").glob("part-*")}
    # That of the part which the worker had begun may differ.
    assert len(before.items() - after.items()) <= 1
    assert len(after) > len(before) > 2
    assert [row["tokens"][1] for row in rows(Path("out"))] == [str(n) for n in range(12_000)]
    assert elmo(*command[1:], "--resume") == 0
    assert "out is complete already" in capsys.readouterr().out


def test_bad_lines(on_cluster, elmo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_bytes(b"fine\n\xff bad\n" + b"w " * 70_000 + b"\nthe end\n")
    command = ["embed", "in.txt", "out", *tiny(tmp_path), "--engine", "ray"]
    assert elmo(*command) == 1
    assert mentions(capsys.readouterr().err, "error: in.txt, line 2", "0xff", "5")
    assert not Path("out").exists()
    assert elmo(*command, "--skip-bad", "--dtype", "float16", "--layers", "average", "--workers", 1) == 0
    assert "2 sentences, 3 tokens, 2 rejected lines, 2 files" in capsys.readouterr().out
    written = [(row["line"], row["tokens"], row["shape"]) for row in rows(Path("out"))]
    assert written == [(1, ["fine"], [1, 1, 12]), (4, ["the", "end"], [1, 2, 12])]
    assert pq.read_schema("out/part-000000.parquet").field("layers").type.value_type == pa.float16()
    rejected = [json.loads(line) for line in Path("out/_rejected.jsonl").read_text().splitlines()]
    assert [(line["line"], line["reason"]) for line in rejected] == [
        (2, "the byte 0xff at offset 0 is not UTF-8"),
        (3, "70,000 tokens are more than the 65,536 of a sentence"),
    ]
    assert rejected[0]["content"] == "\\xff bad"
    Path("out/mine").touch()
    assert elmo(*command, "--force") == 1
    assert "out holds mine" in capsys.readouterr().err


def test_arguments_of_hdf5(elmo, source, capsys):
    for argument in (["--stateful"], ["--forget-sentences"], ["--pool", "mean"], ["--format", "fasta"]):
        assert elmo("embed", source, "out", "--engine", "ray", *argument) == 1
        assert f"{argument[0]} is not for --engine ray" in capsys.readouterr().err


@pytest.fixture
def lines() -> list[str]:
    words = SENTENCE.split()
    return [json.dumps({"tokens": words[n % 7 : 8 + n % 5], "n": n}) for n in range(40)]


@pytest.mark.usefixtures("one_thread")
def test_the_lines_of_allennlp(on_cluster, elmo, ner_archive, lines, tmp_path, monkeypatch, capsys):
    """Batches with their padding are the same, so results are to the last digit; blank lines, too."""
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text("".join(line + "\n" + "\n \n" * (n % 9 == 4) for n, line in enumerate(lines)))
    command = ["--batch-size", 3]
    on_ray = [*command, "--engine", "ray", "--workers", 1, "--shard-bytes", 300]
    assert elmo("predict", ner_archive, "in.jsonl", "expected", *command) == 0
    expected = Path("expected").read_text()
    assert expected.count("\n") == len(lines)
    assert elmo("predict", ner_archive, "in.jsonl", "out", *on_ray) == 0
    assert "out: 40 lines, of " in capsys.readouterr().out
    assert Path("out").read_text() == expected
    assert not Path("out.partial").exists()
    assert elmo("predict", ner_archive, "in.jsonl", "out", *on_ray) == 1
    assert mentions(capsys.readouterr().err, "out exists", "--force")
    assert elmo("predict", ner_archive, "in.jsonl", "out", *on_ray, "--resume") == 0
    assert mentions(capsys.readouterr().out, "out is complete", "--force")


@pytest.mark.usefixtures("one_thread")
def test_an_error_names_its_line(on_cluster, elmo, ner_archive, lines, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines[25], lines[31] = '{"tokens": 7}', "no JSON"
    Path("in.jsonl").write_text("\n" + "\n".join(lines))
    assert elmo("predict", ner_archive, "in.jsonl", "expected", "--batch-size", 4) == 1
    expected, message = Path("expected").read_text(), capsys.readouterr().err
    assert "in.jsonl, line 27: " in message
    assert expected.count("\n") == 25
    on_ray = ["--batch-size", 4, "--engine", "ray", "--workers", 1, "--shard-bytes", 300]
    assert elmo("predict", ner_archive, "in.jsonl", "out", *on_ray) == 1
    assert message.strip().splitlines()[-1] in capsys.readouterr().err
    # Ray may end at once: nothing reads from it any more.
    assert not [thread.name for thread in threading.enumerate() if "Executor" in thread.name]
    assert Path("out").read_text() == expected


def test_the_command_of_the_pages(on_cluster, elmo, ner_archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/ner").mkdir(parents=True)
    shutil.copy(ner_archive, "runs/ner")
    (words,) = (words for words in ALL_COMMANDS if words[2:3] == ["predict"] and "ray" in words)
    assert elmo(*in_one_epoch(words)[2:]) == 0
    assert Path("runs/ray.jsonl").read_text().count("\n") == 12


def test_a_worker_that_died_is_replaced(on_cluster, tmp_path):
    attempts = attempts_before_an_error(RayEngine(workers=1), tmp_path, deaths=1)
    # Shard 0 is done again, too, if its outcome was still on the way.
    assert attempts.count(1) == 2
    assert {0, 1, 2} <= set(attempts)


def test_ray_counts_its_workers_and_what_they_need(on_cluster, tmp_path):
    engine, job = RayEngine(), Stumble(tmp_path, deaths=0)
    with engine.start(job) as workers:
        assert workers == 2
        run = open_run(job.sink.folder, ["text"], {}, reading=job.reading, shard_bytes=1)
        run.pieces = (piece for piece in run.pieces if piece.shard.number in (0, 3))
        done = list(engine.outcomes(job, run, workers))
    assert sorted(outcome["number"] for outcome in done) == [0, 3]
    assert all(outcome["peak_memory"] > 1 << 20 for outcome in done)


def test_a_shard_that_kills_its_workers_ends_the_run(on_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "RETRIES", 1)
    with pytest.raises(ElmoError, match=r"^2 workers died") as raised:
        Stumble(tmp_path, deaths=99).run(RayEngine(workers=1))
    assert len(list(tmp_path.glob("1.*"))) == 2
    assert "--resume" in raised.value.__notes__[0]


def test_the_disk_of_a_worker_is_full(on_cluster, tmp_path):
    with pytest.raises(ElmoError, match="No space left") as raised:
        FullDisk(tmp_path, deaths=0).run(RayEngine(workers=1))
    assert "--resume" in raised.value.__notes__[0]
    assert (tmp_path / "out").read_text() == "0\n"
    (tmp_path / "room").touch()
    FullDisk(tmp_path, deaths=0).run(RayEngine(workers=1))
    assert (tmp_path / "out").read_text() == "0\n1\n2\n3\n4\n"
