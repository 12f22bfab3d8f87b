"""How far a run of `embed` has come: one small file, replaced as a whole."""

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from elmo_tasks.atomic_files import atomic_file
from elmo_tasks.elmo.model import ElmoError, LstmState

CHECKPOINT = "checkpoint.npz"

Settings = dict[str, str | int | None]
"""What the runs before and after a stop must have in common; the key of an argument is its name, `--...`."""


class Checkpoint(NamedTuple):
    """How much of a run is on the disk for good."""

    lines: int = 0
    tokens: int = 0
    state: LstmState | None = None
    """Where the next line starts, if the state is carried."""

    def save(self, folder: Path, settings: Settings) -> None:
        """Writes the file `CHECKPOINT` of `folder`; a kill leaves the old one or the new one."""
        header = json.dumps({"settings": settings, "lines": self.lines, "tokens": self.tokens})
        content: dict[str, Any] = {"header": np.array(header)}
        if self.state is not None:
            content |= {"hidden": self.state.hidden.cpu().numpy(), "memory": self.state.cell.cpu().numpy()}
        with atomic_file(folder / CHECKPOINT) as file:
            np.savez(file, **content)

    @classmethod
    def load(cls, folder: Path, settings: Settings) -> "Checkpoint":
        """
        # Raises
        `ElmoError`: the file is broken, or its run had other settings; those that differ are named.
        """
        path = folder / CHECKPOINT
        try:
            with np.load(path, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                state = [torch.from_numpy(file[name]) for name in ("hidden", "memory") if name in file]
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ElmoError(f"{path}: not a checkpoint ({error}); --force starts anew") from error
        check_same(folder, header["settings"], settings)
        return cls(header["lines"], header["tokens"], LstmState(*state) if state else None)


def check_same(folder: Path | str, before: Settings, now: Settings) -> None:
    """
    # Raises
    `ElmoError`: a run in `folder` had other settings. It names the keys whose values differ; the values too,
    where they say something to the user.
    """
    differences = [
        f"{key} (was {before.get(key)}, is {now.get(key)})" if key.startswith("--") else key
        for key in before | now
        if before.get(key) != now.get(key)
    ]
    if differences:
        raise ElmoError(
            f"{folder} cannot be resumed, this differs: {', '.join(differences)}; --force starts anew"
        )
