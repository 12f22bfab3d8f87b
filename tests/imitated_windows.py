"""
An imitation of Windows, as far as programs notice: it has no forks and other calls of POSIX, opens no folder,
and neither removes nor renames a file that is open or mapped.

It begins when this module is imported, also by the processes that are spawned. Run as a program, it then
does what a user of the suite does.
"""

import io
import json
import multiprocessing
import os
import shutil
import signal
import sys
import traceback
from contextlib import suppress
from functools import partial
from multiprocessing import context
from pathlib import Path
from typing import Any, NoReturn

# They have ways of their own on Windows.
import filelock  # noqa: F401
import h5py  # noqa: F401
import lmdb.verify  # noqa: F401
import torch  # noqa: F401

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None  # type: ignore[assignment]
for name in (
    *("O_DIRECTORY", "O_NOFOLLOW", "fchmod", "fork", "geteuid", "getuid", "mkfifo", "posix_fallocate"),
    *("pread", "pwritev", "register_at_fork", "sched_getaffinity", "sysconf", "uname"),
):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL"):
    delattr(signal, name)
for name in ("ForkContext", "ForkProcess", "ForkServerContext", "ForkServerProcess"):
    delattr(context, name)
for method in ("fork", "forkserver"):
    del context._concrete_contexts[method]  # type: ignore[attr-defined]
multiprocessing.set_start_method("spawn", force=True)
multiprocessing.get_all_start_methods = lambda: ["spawn"]
shutil._use_fd_functions = False  # type: ignore[attr-defined]
if sys.version_info >= (3, 14):
    shutil._rmtree_impl = shutil._rmtree_unsafe  # type: ignore[attr-defined]

_rename = os.rename


def _rename_to_nothing(source: Any, target: Any) -> None:
    if os.path.exists(target):
        raise FileExistsError(17, "WinError 183: file already exists", os.fspath(target))
    _rename(source, target)


os.rename = _rename_to_nothing  # type: ignore[assignment]


def _open_files() -> set[str]:
    """Returns the paths of the files that this process has open, or mapped."""
    paths = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            paths.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return paths | {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/")}


def _refuse(path: Any, problem: str) -> NoReturn:
    raise PermissionError(13, problem, os.fspath(path))


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.remove", "os.rmdir", "os.rename"):
        if ".filelock-probe" in os.fspath(arguments[0]):  # filelock tries a Linux folder
            return
        for path in arguments[: 2 if event == "os.rename" else 1]:
            real = os.path.realpath(path)
            if any(each == real or each.startswith(f"{real}/") for each in _open_files()):
                _refuse(path, "WinError 32: used by another process")
    elif event == "os.symlink":
        _refuse(arguments[1], "WinError 1314: privilege not held")
    elif event == "open":
        path, mode, _ = arguments
        if isinstance(path, str | bytes) and not os.fsdecode(path).startswith("/proc/"):
            if mode is None and os.path.isdir(path):
                _refuse(path, "a folder")
            if set(Path(os.fsdecode(path)).name) & set('<>:"|?*'):
                raise OSError(22, "WinError 123: no name of a file", path)
    elif event == "os.mkdir" and set(Path(os.fsdecode(arguments[0])).name) & set('<>:"|?*'):
        raise OSError(22, "WinError 123: no name of a folder", arguments[0])


sys.addaudithook(_check)


# The steps of tests/windows_test.py, in this order

FIXTURES = Path(__file__).parents[1].joinpath("fixtures")
TEXT, RECORDS = str(FIXTURES / "elmo/sentences.txt"), str(FIXTURES / "ner/predict.jsonl")
CONFIG = "training_configs/ner_elmo.jsonnet"
TINY = {
    "model.elmo.options_file": str(FIXTURES / "elmo/options.json"),
    "model.elmo.weight_file": str(FIXTURES / "elmo/weights.hdf5"),
    "model.hidden_sizes": [8, 8],
    "trainer.num_epochs": 1,
    "trainer.patience": None,
}


def allennlp(*arguments: str) -> None:
    from allennlp.__main__ import run

    sys.argv = ["allennlp", *arguments]
    run()


def embedder() -> None:
    from elmo_tasks import ElmoEmbedder

    elmo = ElmoEmbedder()
    assert elmo.embed_sentence(["A", "sentence"]).shape == (3, 2, elmo.dim)
    elmo.embed_file(TEXT, "embedder.hdf5")


def activations() -> None:
    from elmo_tasks import Elmo

    elmos = [Elmo(), Elmo(activations="activations"), Elmo(activations="activations")]
    expected, *kept = [elmo(elmo.padded_ids([["A", "sentence"]])).input for elmo in elmos]
    assert all(expected.equal(vectors) for vectors in kept)
    assert os.listdir("activations")


def load() -> None:
    import elmo_tasks

    assert elmo_tasks.load("ner")("Ada Lovelace lived in London.")


def resume() -> None:
    from elmo_tasks.elmo.inference import FrozenBiLm

    encode, calls = FrozenBiLm.encode, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return encode(*arguments)

    arguments = "elmo", "embed", TEXT, "resumed.hdf5", "--batch-tokens", "4"
    FrozenBiLm.encode = interrupted
    with suppress(SystemExit):
        allennlp(*arguments)
    FrozenBiLm.encode = encode
    assert Path("resumed.hdf5.partial").exists()
    allennlp(*arguments, "--resume")


def standard_input() -> None:
    with open(TEXT, "rb") as text:
        sys.stdin = io.TextIOWrapper(text)
        allennlp("elmo", "calibrate", "-", "state.hdf5", "--max-sentences", "3")


def train(folder: str, *options: str, **changes: Any) -> list[str]:
    overrides = TINY | {name.replace("__", "."): value for name, value in changes.items()}
    return ["train", CONFIG, "-s", folder, "-o", json.dumps(overrides), *options]


STEPS = {
    **{step.__name__: step for step in (embedder, activations, load, resume, standard_input)},
    **{
        name: partial(allennlp, *arguments)
        for name, arguments in {
            "train": train("run"),
            "recover": train("run", "--recover", trainer__num_epochs=2),
            "loader processes": train("loaded", data_loader__num_workers=1),
            "predict": ["predict", "run", RECORDS, "--output-file", "predicted.jsonl"],
            "predict in parts": ["elmo", "predict", "run", RECORDS, "parts.jsonl"],
            "embed": ["elmo", "embed", TEXT, "embedded.hdf5"],
            "compare": [
                *("elmo", "compare", CONFIG, "compared", "-o", json.dumps(TINY)),
                *("--seeds", "1", "--variants", "no-elmo"),
            ],
            "doctor": ["elmo", "doctor"],
        }.items()
    },
}

if __name__ == "__main__":
    problems = {}
    for name, step in STEPS.items():
        try:
            step()
        except (Exception, SystemExit):
            problems[name] = traceback.format_exc()
    Path("problems.json").write_text(json.dumps(problems))
