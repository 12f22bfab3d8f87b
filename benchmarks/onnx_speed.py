"""
Exported models, by their own `predict.py`, compared with the archives that they are made of.

The records are the first lines of TEXT, a sentence each, pairs of them for `snli`, and passages of nine with
a question for `squad`. In each round, the archive in PyTorch and the graph in onnxruntime predict them one by
one, and the archive predicts them in batches, in one process that has opened both. Then come the commands
from start to end, on one line, with the memory of the largest process and the bytes of the folder.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.bilms import read_text
from benchmarks.results import OURS, Results, add_results_argument, show
from benchmarks.zoo import examples
from elmo_tasks.archives import open_archive
from elmo_tasks.archives.opening import TRAINED, local_archive
from elmo_tasks.pipeline.trained import load
from elmo_tasks.standalone.folder import write_model

GRAPH, BATCHES = "graph", "batches"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="a sentence a line, words apart by blanks")
    parser.add_argument("out", type=Path, help="folder for the exported models")
    parser.add_argument("--names", nargs="+", default=["ner", "snli", "topics", "squad"])
    parser.add_argument("-n", type=int, default=200, help="sentences")
    parser.add_argument("--rounds", type=int, default=5)
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    results = Results("onnx-speed", arguments.csv)
    sentences = [" ".join(words) for words in read_text(arguments.text, arguments.n)]
    for name in arguments.names:
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        archive = f"{TRAINED}{name}"
        write_model(open_archive(archive), folder)
        measure(results, name, folder, sentences, arguments.rounds)
        line = folder / "line.jsonl"
        line.write_text(json.dumps(_records(name, sentences)[0]) + "\n", encoding="utf-8")
        commands = {
            OURS: ["-m", "allennlp", "predict", archive, line],
            GRAPH: [folder / "predict.py", line],
        }
        for seed in range(arguments.rounds):
            for system, command in commands.items():
                start = time.perf_counter()
                peak = _peak([sys.executable, *map(str, command)])
                results.add(system, seed, f"{name}: start and a line, s", time.perf_counter() - start)
                results.add(system, seed, f"{name}: memory, MB", peak / 1e6)
        files = [path for path in folder.iterdir() if path.is_file() and path != line]
        results.add(GRAPH, 0, f"{name}: files, MB", sum(path.stat().st_size for path in files) / 1e6)
        results.add(OURS, 0, f"{name}: files, MB", Path(local_archive(archive)).stat().st_size / 1e6)
    show(results.ratios([(GRAPH, OURS), (BATCHES, OURS)]))


def measure(results: Results, name: str, folder: Path, sentences: list[str], rounds: int) -> None:
    """Adds the records a second, each round in turn."""
    predictor = load(f"{TRAINED}{name}").predictor
    predictor.may_set_threads = True
    records = _records(name, sentences)
    page, model = _page(folder)
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: [predictor.predict_json(record) for record in records],
        GRAPH: lambda: [page.predict(model, record) for record in records],
        BATCHES: lambda: predictor.predict_batch_json(records),
    }
    for seed in range(-1, rounds):
        for system, predict in runs.items():
            start = time.perf_counter()
            predict()
            if seed >= 0:
                results.add(system, seed, f"{name}: records/s", len(records) / (time.perf_counter() - start))


def _records(name: str, sentences: list[str]) -> list[dict[str, str]]:
    fields = {"snli": ("premise", "hypothesis"), "squad": ("passage", "question")}.get(name, ("sentence",))
    return [dict(zip(fields, texts, strict=True)) for texts in examples(name, sentences)]


def _page(folder: Path) -> tuple[Any, Any]:
    """Imports the modules of a folder, which have the same names in each."""
    for path in folder.glob("*.py"):
        sys.modules.pop(path.stem, None)
    sys.path.insert(0, str(folder))
    try:
        return import_module("predict"), import_module("words").Model(folder)
    finally:
        sys.path.remove(str(folder))


def _peak(command: list[str]) -> int:
    """Runs a command, and returns the peak memory of its process, in bytes."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    ran = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    return int(ran.stdout) * 1024
