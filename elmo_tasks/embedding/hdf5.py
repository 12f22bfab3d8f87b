"""
How far a run of `embed` has come: one small file, replaced as a whole.

A thread that writes while the next batch is computed.

The vectors of a text to an HDF5 file, window by window: it goes on where a run was stopped.
"""

import json
import sys
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.progress import progress
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import LstmState
from elmo_tasks.embedding.corpus import Corpus, NumberedSentence, batches_by_length, padded_ids, windows
from elmo_tasks.embedding.vector_file import NOT_FINITE, VectorFile, chosen_layers, first_not_finite, lay_out

# ==== embedding.checkpoint
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


# ==== embedding.writer_thread
class WriterThread:
    """
    Runs calls one after another on a thread of its own.

    A context manager: leaving it waits for the calls, also when an exception leaves it. After a call that
    raised, no other is run, and its exception is raised by a later `submit` or in the end.

    # Parameters

    waiting : so many calls may wait; `submit` returns when there is room.
    """

    def __init__(self, *, waiting: int) -> None:
        self._waiting = waiting
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._calls: deque[Future[None]] = deque()

    def __enter__(self) -> "WriterThread":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown()
        if self._calls and error is None:
            self._calls[-1].result()

    def submit(self, call: Callable[[], None]) -> None:
        while self._calls and (len(self._calls) > self._waiting or self._calls[0].done()):
            self._calls.popleft().result()
        before = self._calls[-1] if self._calls else None
        self._calls.append(self._pool.submit(_run_after, before, call))


def _run_after(before: Future[None] | None, call: Callable[[], None]) -> None:
    """Runs `call`, or raises what the call before it has raised. There is one thread, so that one is done."""
    if before is not None:
        before.result()
    call()


# ==== embedding.hdf5_run
POOLS = ("none", "mean")

VERSION = 1
"""The version of the files in the work folder, and of how lines are put into windows and batches."""
BATCH_TOKENS = 2048
WINDOW_LINES = 4096
WINDOW_TOKENS = 1 << 14
"""The lines between two checkpoints are a window; it ends when either number is reached."""
WAITING_BATCHES = 4
"""Batches that wait for the disk, at most."""


@dataclass(kw_only=True)
class Hdf5Run:
    """
    Fills the vectors of a text into an HDF5 file, window by window.

    A window's lines are sorted by length into batches. When its vectors are on the disk, the checkpoint says
    so. Windows and batches depend on the text alone, so that a resumed run has the same ones.

    # Parameters

    bilm : frozen.
    text : whose lines get vectors.
    folder : to work in.
    layers : one of `LAYERS`.
    pool : one of `POOLS`: a vector of each token, or their mean; zeros for a line without tokens.
    start : where a sentence starts, `(layers, 2, 1, ...)`; if `stateful`, the first.
    stateful : the others start where the one before them ended.
    batch_tokens, batch_sentences : bounds of a batch, see `batches_by_length`.
    with_index : write `sentence_to_index`; not of a text with keys, which name the datasets.
    progress : show a bar.
    """

    bilm: FrozenBiLm
    text: Corpus
    folder: Path
    layers: str = "all"
    pool: str = "none"
    start: LstmState
    stateful: bool = False
    batch_tokens: int = BATCH_TOKENS
    batch_sentences: int = sys.maxsize
    with_index: bool = True
    progress: bool = True

    def __post_init__(self) -> None:
        self.done = Checkpoint()
        self.device = self.start.hidden.device
        self.settings: Settings = {
            "the text": self.text.digest,
            "the biLM": self.bilm.digest(),
            "the initial state": self.start.digest(),
            "the version of this command": VERSION,
            "--layers": self.layers,
            "--pool": self.pool,
            "--precision": self.bilm.precision,
            "--device": self.device.type,
            "--batch-tokens": self.batch_tokens,
            "--stateful": self.stateful,
            "--forget-sentences": not self.with_index,
        }

    def prepare(self) -> Checkpoint:
        """Lays out the file, or finds how far a run that was stopped came; returns where to go on."""
        if (self.folder / CHECKPOINT).exists():
            done = Checkpoint.load(self.folder, self.settings)
            state = done.state and LstmState(*(part.to(self.device) for part in done.state))
            self.done = done._replace(state=state)
        else:
            lay_out(
                self.folder,
                self.text,
                layers=self.bilm.num_layers if self.layers == "all" else None,
                dim=self.bilm.options.output_dim,
                pooled=self.pool != "none",
                with_index=self.with_index and not self.text.has_keys,
            )
            self.done.save(self.folder, self.settings)
        return self.done

    def encode(self) -> None:
        """
        Writes the vectors of all lines that are not done yet.

        # Raises
        `ElmoError`: a batch does not fit into the device's memory. `OSError`: from the disk.
        """
        bar = progress(
            work="embed",
            total=self.text.tokens,
            initial=self.done.tokens,
            unit="tokens",
            unit_scale=True,
            disable=not self.progress,
        )
        with (
            torch.no_grad(),
            bar,
            VectorFile(self.folder) as file,
            WriterThread(waiting=WAITING_BATCHES) as writer,
        ):
            lines, tokens, state = self.done
            for window in windows(self._sentences(lines), sentences=WINDOW_LINES, tokens=WINDOW_TOKENS):
                for batch in self._batches(window):
                    vectors, state = self._vectors(batch, state)
                    writer.submit(partial(file.write, batch, vectors))
                    bar.update(_count(batch))
                lines, tokens = lines + len(window), tokens + _count(window)
                writer.submit(partial(self._finish_window, file, Checkpoint(lines, tokens, state)))

    def _sentences(self, first: int) -> Iterator[NumberedSentence]:
        """The sentences of line `first` and all behind it; a window starts with it."""
        for number, line in enumerate(self.text.lines(first), start=first):
            yield NumberedSentence(number, line.split())

    def _batches(self, window: list[NumberedSentence]) -> Iterable[list[NumberedSentence]]:
        if self.stateful:
            return ([sentence] for sentence in window if sentence.words)
        return batches_by_length(window, self.batch_tokens, sentences=self.batch_sentences)

    def _vectors(
        self, batch: list[NumberedSentence], carried: LstmState | None
    ) -> tuple[np.ndarray, LstmState | None]:
        """
        *Shape:* `(layers, sentences, longest, dim)`, with one layer if one is asked for, and one token if
        their mean is; and the state to carry to the next batch, if any.
        """
        ids = padded_ids(batch, self.bilm)
        try:
            if self.stateful:
                layers, carried = self.bilm(ids, carried or self.start)
            else:
                layers = self.bilm.encode(ids, self.start)
        except torch.OutOfMemoryError as error:
            sentences, tokens = ids.shape[:2]
            raise ElmoError(
                f"{self.device} has too little memory for {sentences} sentences of {tokens:,} tokens"
            ) from error
        if (row := first_not_finite(layers)) is not None:
            raise ElmoError(f"line {batch[row].number + 1}: {NOT_FINITE}")
        layers = chosen_layers(layers, self.layers)
        if self.pool == "mean":
            # Behind the end of a sentence are zeros.
            lengths = torch.tensor([len(sentence.words) for sentence in batch], device=layers.device)
            layers = layers.sum(dim=2, keepdim=True) / lengths.view(1, -1, 1, 1)
        return layers.cpu().numpy(), carried

    def _finish_window(self, file: VectorFile, done: Checkpoint) -> None:
        file.sync()
        done.save(self.folder, self.settings)
        self.done = done


def _count(sentences: Iterable[NumberedSentence]) -> int:
    return sum(len(sentence.words) for sentence in sentences)
