"""
`embed` and `predict` on Ray beside the same commands without it, from start to end, one thread a worker.

TEXT has one tokenised sentence a line. So many tokens of it as asked for, read again where it is too short,
are embedded, and with `--archive` predicted, by the plain command and by Ray with each number of workers.
`wall` is all of the command; `busy` the part in which workers work, from the first shard to the last, and its
speed-up is beside one worker. Times mean something on an idle machine; the tokens for each second of a
worker's processor time depend less on what else runs. Memory is the peak of a process, of the largest worker.
OUT/results.csv has all rows.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from allennlp.commands import main as allennlp_main

from elmo_tasks.data.input_files import read_lines
from elmo_tasks.evaluation.table import Table

COLUMNS = (
    *("command", "tokens", "workers", "wall", "busy", "speed-up"),
    *("tokens/s of processor", "driver", "worker"),
)
SHARDS = "shards.json"
CHILD = "import sys; from benchmarks.scale import command; command(sys.argv[1], sys.argv[2:])"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="a sentence a line, words apart by blanks")
    parser.add_argument("out", type=Path, help="folder to work in")
    parser.add_argument("--tokens", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--bilm", type=Path, help="folder of options.json and weights.hdf5")
    parser.add_argument("--archive", help="to predict with; it reads tokens, as those of NER do")
    parser.add_argument("--batch-size", type=int, default=16, help="of predict")


def run(arguments: argparse.Namespace) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    bilm = arguments.bilm
    files = ("--options-file", bilm / "options.json", "--weight-file", bilm / "weights.hdf5") if bilm else ()
    table = Table(COLUMNS)
    for tokens in arguments.tokens:
        text, lines = arguments.out / "in.txt", arguments.out / "in.jsonl"
        tokens = write_text(arguments.text, tokens, text, lines)
        measure("embed", (text,), files, tokens, arguments, table)
        if arguments.archive:
            batches = ("--batch-size", arguments.batch_size)
            measure("predict", (arguments.archive, lines), batches, tokens, arguments, table)
    (arguments.out / "results.csv").write_text(table.csv(), encoding="utf-8")
    print(f"\n{table.markdown()}", end="")


def write_text(source: Path, tokens: int, text: Path, lines: Path) -> int:
    """Plain and as JSON Lines; returns how many tokens there are."""
    written = 0
    with open(text, "w") as plain, open(lines, "w") as objects:
        for _, line in itertools.chain.from_iterable(map(read_lines, itertools.repeat(source))):
            if words := line.split():
                plain.write(" ".join(words) + "\n")
                objects.write(json.dumps({"tokens": words}) + "\n")
                written += len(words)
            if written >= tokens:
                return written
    return written


def measure(
    verb: str,
    sources: tuple[Any, ...],
    options: tuple[Any, ...],
    tokens: int,
    arguments: argparse.Namespace,
    table: Table,
) -> None:
    """Adds a row for the plain command, and one for each number of workers; shown at once: runs are long."""
    busy_of_one = None
    for workers in (None, *arguments.workers):
        output = arguments.out / "vectors"
        for left in (output, arguments.out / "vectors.partial"):
            shutil.rmtree(left, ignore_errors=True)
            left.unlink(missing_ok=True)
        engine = ("--engine", "ray", "--workers", workers) if workers else ()
        words = ["elmo", verb, *sources, output, *options, *engine]
        wall, processor, driver = seconds_and_memory(words, arguments.out / SHARDS)
        row = [verb, f"{tokens:,}", workers or "none", f"{wall:.1f} s"]
        if workers is None:
            row += ["", "", f"{tokens / processor:,.0f} (and the start)", f"{driver / 1e6:,.0f} MB", ""]
        else:
            shards = json.loads((arguments.out / SHARDS).read_text())
            busy = max(shard["ended"] for shard in shards) - min(
                shard["ended"] - shard["seconds"] for shard in shards
            )
            busy_of_one = busy_of_one or busy
            rate = tokens / sum(shard["processor_seconds"] for shard in shards)
            worker = max(shard["peak_memory"] for shard in shards)
            row += [f"{busy:.1f} s", f"{busy_of_one / busy:.2f}", f"{rate:,.0f}"]
            row += [f"{driver / 1e6:,.0f} MB", f"{worker / 1e6:,.0f} MB"]
        table.add(*row)
        print(", ".join(map(str, row)), flush=True)


def seconds_and_memory(words: list[Any], shards: Path) -> tuple[float, float, int]:
    """Of `allennlp WORDS`: from start to end, of the processor, and its peak in bytes. See `command`."""
    began = time.monotonic()
    arguments = [sys.executable, "-c", CHILD, str(shards), *map(str, words)]
    process = subprocess.Popen(arguments, env=os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{words} ended with {status}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def command(shards: str, words: list[str]) -> None:
    """`allennlp WORDS`, in a process of its own; on Ray, the outcomes of all shards go to a file."""
    sys.argv = ["allennlp", *words]
    outcomes = []
    if "--engine" in words:
        from elmo_tasks.scale.runs import Run

        progress = Run.progress

        def noted(self: Run, results: Iterator[Any], name: str) -> Iterator[Any]:
            for outcome in progress(self, results, name):
                outcomes.append(outcome)
                yield outcome

        Run.progress = noted  # type: ignore[assignment, method-assign]
    allennlp_main(prog="allennlp")
    Path(shards).write_text(json.dumps(outcomes))
