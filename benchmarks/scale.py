"""
`embed` and `predict` on Ray compared with the same commands without it, start to end, one thread a worker.

TEXT has one tokenised sentence a line. The first `--tokens` of it, repeated if it is too short,
are embedded, and with `--archive` predicted, by the plain command and by Ray with each number of workers.

The first table has a row a run. `wall` is all of the command, and `overhead` what it takes beyond the plain
one; `busy` is the part in which workers work, from the first shard to the last, and its speed-up is relative
to one worker. Memory is the peak of a process, of the largest worker. The second table has the line through
the walls of the smallest and the largest text: what the start takes, and the speed after it, with an overhead
and a speed-up of its own; a wall between the two is so far off the line. Times mean something on an idle
machine; the tokens for each second of a worker's processor time depend less on what else runs.
OUT/results.csv and OUT/lines.csv have the two tables.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.commands import main as allennlp_main

from benchmarks.bilms import peak_memory
from benchmarks.results import versions
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.data.input_files import read_lines

COLUMNS = (
    "command",
    "tokens",
    "workers",
    "wall",
    "overhead",
    "busy",
    "speed-up",
    "tokens/s of processor",
    "driver",
    "worker",
)
LINE = ("command", "workers", "start", "tokens/s after it", "overhead", "speed-up", "off the line")

SHARDS = "shards.json"
CHILD = "import sys; from benchmarks.scale import command; command(sys.argv[1], sys.argv[2:])"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="a sentence a line, words apart by blanks")
    parser.add_argument("out", type=Path, help="folder to work in")
    parser.add_argument("--tokens", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--bilm", type=Path, help="folder of options.json and weights.hdf5")
    parser.add_argument("--archive", help="to predict with; it reads tokens, as NER does")
    parser.add_argument("--batch-size", type=int, default=16, help="of predict")


class Measured(NamedTuple):
    """A run of a command."""

    command: str
    tokens: int
    workers: int | None
    """`None`: without Ray."""
    wall: float
    """Seconds, as all times."""
    processor: float
    """Seconds of the workers; without Ray, of the command with its start."""
    driver: int
    """Bytes."""
    busy: float = 0.0
    worker: int = 0
    """Bytes."""
    overhead: float | None = None
    """Overhead of one worker beyond the plain command."""
    speed_up: float | None = None
    """Relative to one worker."""


def run(arguments: argparse.Namespace) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    bilm = arguments.bilm
    files = ("--options-file", bilm / "options.json", "--weight-file", bilm / "weights.hdf5") if bilm else ()
    runs: list[Measured] = []
    for tokens in arguments.tokens:
        text, lines = arguments.out / "in.txt", arguments.out / "in.jsonl"
        tokens = write_text(arguments.text, tokens, text, lines)
        runs += measure("embed", (text,), files, tokens, arguments)
        if arguments.archive:
            batches = ("--batch-size", arguments.batch_size)
            runs += measure("predict", (arguments.archive, lines), batches, tokens, arguments)
    tables = {"results": Table(COLUMNS, list(map(row, runs)))}
    if len(arguments.tokens) > 1:
        tables["lines"] = lines_of(runs)
    for name, table in tables.items():
        (arguments.out / f"{name}.csv").write_text(table.csv(), encoding="utf-8")
        print(f"\n{table.markdown()}", end="")
    print(f"\n{versions()}; load average {os.getloadavg()[0]:.1f}")


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
    verb: str, sources: tuple[Any, ...], options: tuple[Any, ...], tokens: int, arguments: argparse.Namespace
) -> list[Measured]:
    """Measures the plain command, and the command with each number of workers; shows each immediately."""
    runs: list[Measured] = []
    for workers in (None, *arguments.workers):
        output = arguments.out / "vectors"
        for left in (output, arguments.out / "vectors.partial"):
            shutil.rmtree(left, ignore_errors=True)
            left.unlink(missing_ok=True)
        engine = ("--engine", "ray", "--workers", workers) if workers else ()
        words = ["elmo", verb, *sources, output, *options, *engine]
        wall, processor, driver, shards = measured(words, arguments.out / SHARDS)
        one = Measured(verb, tokens, workers, wall, processor, driver)
        if workers is not None:
            began = min(shard["ended"] - shard["seconds"] for shard in shards)
            one = one._replace(
                processor=sum(shard["processor_seconds"] for shard in shards),
                busy=max(shard["ended"] for shard in shards) - began,
                worker=max(shard["peak_memory"] for shard in shards),
            )
            of_one = [run for run in (*runs, one) if run.workers == 1]
            one = one._replace(
                overhead=wall / runs[0].wall - 1 if workers == 1 else None,
                speed_up=of_one[0].busy / one.busy if of_one else None,
            )
        runs.append(one)
        print(", ".join(map(str, row(one))), flush=True)
    return runs


def row(one: Measured) -> tuple[Cell, ...]:
    """Returns the cells of `COLUMNS`."""
    plain = one.workers is None
    return (
        one.command,
        f"{one.tokens:,}",
        one.workers or "none",
        f"{one.wall:.1f} s",
        "" if one.overhead is None else f"{one.overhead:.0%}",
        "" if plain else f"{one.busy:.1f} s",
        "" if one.speed_up is None else f"{one.speed_up:.2f}",
        f"{one.tokens / one.processor:,.0f}" + (" (and the start)" if plain else ""),
        f"{one.driver / 1e6:,.0f} MB",
        "" if plain else f"{one.worker / 1e6:,.0f} MB",
    )


def lines_of(runs: list[Measured]) -> Table:
    """The second table, of texts of several sizes."""
    table = Table(LINE)
    rates: dict[tuple[str, int | None], float] = {}
    for command, workers in dict.fromkeys((one.command, one.workers) for one in runs):
        own = [one for one in runs if (one.command, one.workers) == (command, workers)]
        first, *between, last = sorted(own, key=lambda one: one.tokens)
        rate = rates[command, workers] = (last.tokens - first.tokens) / (last.wall - first.wall)
        start = first.wall - first.tokens / rate
        off = max((abs(one.wall / (start + one.tokens / rate) - 1) for one in between), default=0.0)
        of_one = rates.get((command, 1))
        table.add(
            command,
            workers or "none",
            f"{start:.1f} s",
            f"{rate:,.0f}",
            f"{rates[command, None] / rate - 1:.0%}" if workers == 1 else "",
            f"{rate / of_one:.2f}" if of_one else "",
            f"{off:.0%}",
        )
    return table


def measured(words: list[Any], shards: Path) -> tuple[float, float, int, list[Any]]:
    """
    Runs `allennlp WORDS` and returns the seconds from start to end and of the processor, its peak in bytes,
    and the outcomes of its shards. See `command`.
    """
    began = time.monotonic()
    arguments = [sys.executable, "-c", CHILD, str(shards), *map(str, words)]
    process = subprocess.Popen(arguments, env=os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    if status:
        sys.exit(f"{words} ended with {status}")
    peak, outcomes = json.loads(shards.read_text())
    return wall, usage.ru_utime + usage.ru_stime, peak, outcomes


def command(shards: str, words: list[str]) -> None:
    """`allennlp WORDS` in a process of its own; its peak and the outcomes of all shards go to a file."""
    sys.argv = ["allennlp", *words]
    done: list[Any] = []
    if "--engine" in words:
        from elmo_tasks.jobs import engines

        first_error = engines.first_error

        def noted(run: engines.Run, outcomes: Any, name: str) -> engines.Outcome | None:
            error = first_error(run, outcomes, name)
            done.extend(run.done.values())
            return error

        engines.first_error = noted
    allennlp_main(prog="allennlp")
    Path(shards).write_text(json.dumps([peak_memory(), done]))
