"""The vectors of a text to an HDF5 file, window by window: it goes on where a run was stopped."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import ElmoError, LstmState
from elmo_tasks.embedding.checkpoint import CHECKPOINT, Checkpoint, Settings
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.embedding.layers import NOT_FINITE, chosen_layers, first_not_finite
from elmo_tasks.embedding.sentences import NumberedSentence, batches_by_length, padded_ids, windows
from elmo_tasks.embedding.vector_file import VectorFile, lay_out
from elmo_tasks.embedding.writer_thread import WriterThread
from elmo_tasks.progress import progress

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
