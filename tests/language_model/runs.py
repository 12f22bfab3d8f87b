"""Whole trainings, each in a process of its own, forked from one that has imported everything."""

import json
import os
import random
import signal
import socket
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch
from allennlp.models import Model

from elmo_tasks.common.files import bundled
from tests.elmo.files import OPTIONS
from tests.forked import Command

CONFIG = str(bundled("training_configs/bilm_words.jsonnet").resolve())
SMALL: dict[str, Any] = {
    "dataset_reader.streams": 4,
    "dataset_reader.bptt_steps": 5,
    "dataset_reader.passage": 3,
    "dataset_reader.subsample": None,
    "validation_dataset_reader.streams": 4,
    "validation_dataset_reader.bptt_steps": 5,
    "validation_dataset_reader.passage": 3,
    "model.options.lstm": OPTIONS["lstm"],
    "data_loader.batches_per_epoch": 5,
    "trainer.optimizer.lr": 0.01,
    "trainer.num_epochs": 3,
}
"""Overrides that make the config of words train in a second."""


def write_text(path: Path, *, passages: int, seed: int, sentences: int = 3, words: int | None = None) -> str:
    """Random documents of as many sentences, of 1 to 9 words, or of as many as are given."""
    draw = random.Random(seed)
    documents = [
        [" ".join(draw.choices("abcdefghij", k=words or draw.randint(1, 9))) for _ in range(sentences)]
        for _ in range(passages)
    ]
    path.write_text("\n\n".join("\n".join(document) for document in documents))
    return str(path)


def train(folder: Path, overrides: dict[str, Any], *, status: int = 0, **options: Any) -> str:
    """Runs `allennlp train`, see `start`; returns what it wrote until it ended with `status`."""
    command = start(folder, SMALL | overrides, **options)
    assert command.finish() == status, command.log.read_text()
    return command.log.read_text()


def train_nodes(
    folder: Path,
    overrides: dict[str, Any],
    *,
    meddle: dict[int, Callable[[], None]] | None = None,
    status: int = 0,
    **options: Any,
) -> list[Path]:
    """
    As `allennlp train --node-rank` on two machines, which are processes here, each with a folder of its own:
    the folders, when both have ended with `status`. `meddle` is by the nodes' ranks; see `start`.
    """
    distributed = {"cuda_devices": [-1], "num_nodes": 2, "primary_port": _port()}
    folders = [folder / f"node{rank}" for rank in range(2)]
    nodes = [
        start(
            node,
            overrides | {"distributed": distributed},
            "--node-rank",
            rank,
            meddle=(meddle or {}).get(rank),
            **options,
        )
        for rank, node in enumerate(folders)
    ]
    for command in nodes:
        assert command.finish() == status, command.log.read_text()
    return folders


def start(
    folder: Path,
    overrides: dict[str, Any],
    *words: object,
    config: str = CONFIG,
    recover: bool = False,
    meddle: Callable[[], None] | None = None,
) -> Command:
    """Starts `allennlp train`. `meddle` is called in its process before it begins."""
    folder.parent.mkdir(exist_ok=True)
    words = ("train", config, "-s", folder, "-o", json.dumps(overrides), *words, *["--recover"] * recover)
    return Command(words, folder.with_suffix(".log"), meddle)


def metrics_of(folder: Path) -> dict[str, float]:
    """The final metrics, less what depends on the machine and the hour."""
    metrics = json.loads((folder / "metrics.json").read_text())
    return {
        name: value
        for name, value in metrics.items()
        if not any(part in name for part in ("memory", "duration", "epochs", "per_second"))
    }


def weights_of(folder: Path, name: str = "best.th") -> dict[str, torch.Tensor]:
    """Returns the weights of a checkpoint, and where its streams stand."""
    state = torch.load(folder / name)
    streams = {name: part for name, part in state.pop("_extra_state", {}).items() if torch.is_tensor(part)}
    return state | streams


def die(model: type[Model], update: int) -> None:
    """SIGKILL in the middle of an update."""
    forward, updates = model.forward, count(1)

    def until(self: Model, *args: Any, **kwargs: Any) -> Any:
        if self.training and next(updates) == update:
            os.kill(os.getpid(), signal.SIGKILL)
        return forward(self, *args, **kwargs)

    model.forward = until  # type: ignore[method-assign]


@cache
def _port() -> int:
    """One that is free, the same each time, as configs of a run that goes on have to be."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
