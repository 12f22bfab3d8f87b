"""`allennlp elmo embed`: the vectors of a text, in the layout of the former `allennlp elmo`."""

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm

from elmo_tasks.atomic_files import put_in_place
from elmo_tasks.commands.base import Verb, add_text_argument, positive
from elmo_tasks.commands.bilm_arguments import add_bilm_arguments, read_bilm
from elmo_tasks.commands.checkpoint import CHECKPOINT, Checkpoint, Settings
from elmo_tasks.commands.corpus import Corpus, copy_corpus
from elmo_tasks.commands.staging import add_force_argument, check_output, staging_folder
from elmo_tasks.commands.vector_file import VECTORS, VectorFile, lay_out
from elmo_tasks.commands.writer_thread import WriterThread
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.sources import read_initial_state
from elmo_tasks.embedding.sentences import NumberedSentence, batches_by_length, padded_ids, windows

LAYERS = ("all", "top", "average")

VERSION = 1
"""The version of the files in the work folder, and of how lines are put into windows and batches."""
WINDOW_LINES = 4096
WINDOW_TOKENS = 1 << 14
"""The lines between two checkpoints are a window; it ends when either number is reached."""
WAITING_BATCHES = 4
"""Batches that wait for the disk, at most."""


class Embed(Verb):
    """See `vector_file` for what comes out, and the class `Embedding` for how."""

    name = "embed"
    help = "Vectors of a text, to HDF5."
    description = """Writes the vectors of a text, one tokenised sentence a line, to HDF5: datasets "0", "1",
        ..., one a line, and sentence_to_index, the lines' numbers as JSON. An empty line has a dataset of no
        tokens. OUT appears when it is whole. Until then the work is in OUT.partial, for --resume."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_text_argument(parser, metavar="IN")
        parser.add_argument("output", metavar="OUT", type=Path, help="HDF5 file to write")
        parser.add_argument(
            "--layers",
            choices=LAYERS,
            default="all",
            help="all: (layers, tokens, dim), the token layer first; top, average: (tokens, dim)",
        )
        add_bilm_arguments(parser)
        parser.add_argument(
            "--batch-tokens",
            type=positive,
            default=2048,
            help="positions of a batch at most, padding included",
        )
        start = parser.add_mutually_exclusive_group()
        start.add_argument(
            "--initial-state", metavar="FILE", help="where each sentence starts: HDF5, as calibrate writes it"
        )
        start.add_argument(
            "--stateful",
            action="store_true",
            help="each sentence starts where the one before it ended, as in bilm-tf; slower: one at a time",
        )
        parser.add_argument("--forget-sentences", action="store_true", help="leave out sentence_to_index")
        again = parser.add_mutually_exclusive_group()
        again.add_argument(
            "--resume", action="store_true", help="continue a run that was stopped: the same IN and options"
        )
        add_force_argument(again, "OUT, discard a run that was stopped")

    def run(self, arguments: argparse.Namespace) -> None:
        began = time.monotonic()
        output: Path = arguments.output
        with staging_folder(output, keep=CHECKPOINT) as folder:
            if not _must_run(output, folder, resume=arguments.resume, force=arguments.force):
                print(f"{output} is whole already")
                return
            bilm = read_bilm(arguments)
            with copy_corpus(arguments.input, folder) as text:
                embedding = Embedding(
                    bilm=bilm,
                    text=text,
                    folder=folder,
                    layers=arguments.layers,
                    start=_start(arguments.initial_state, bilm),
                    stateful=arguments.stateful,
                    batch_tokens=arguments.batch_tokens,
                    with_index=not arguments.forget_sentences,
                )
                before = embedding.prepare()
                embedding.encode()
            put_in_place(folder / VECTORS, output)
            (folder / CHECKPOINT).unlink()
        seconds = time.monotonic() - began
        print(
            f"{output}: {len(text):,} sentences, {text.tokens:,} tokens, "
            f"{(text.tokens - before.tokens) / seconds:,.0f} tokens/s, {seconds:.1f} s"
        )


def _must_run(output: Path, folder: Path, *, resume: bool, force: bool) -> bool:
    """
    Whether there is something to do; removes the checkpoint of a run that is not to be resumed.

    # Raises
    `ConfigurationError`: `output`, or an unfinished run, is there and nothing says what to do with it.
    """
    checkpoint = folder / CHECKPOINT
    # A run that was stopped at its very end has moved its vectors away.
    unfinished = checkpoint.exists() and (folder / VECTORS).exists()
    if unfinished and resume:
        return True
    if unfinished and not force:
        raise ConfigurationError(
            f"{folder} holds a run that was stopped; --resume goes on with it, --force starts anew"
        )
    must_run = not (resume and output.is_file())
    if must_run:
        check_output(output, force=force)
    checkpoint.unlink(missing_ok=True)
    return must_run


def _start(initial_state: str | None, bilm: FrozenBiLm) -> LstmState:
    """Where a single sentence starts."""
    zeros = bilm.initial_state(1)
    if initial_state is None:
        return zeros
    parts = read_initial_state(initial_state, bilm.options)
    return LstmState(*(part.unsqueeze(2).to(zero) for part, zero in zip(parts, zeros, strict=True)))


@dataclass(kw_only=True)
class Embedding:
    """
    Fills the vectors of a text into an HDF5 file, window by window.

    A window's lines are sorted by length into batches. When its vectors are on the disk, the checkpoint says
    so. Windows and batches depend on the text alone, so that a resumed run has the same ones.

    # Parameters

    bilm : frozen.
    text : whose lines get vectors.
    folder : to work in.
    layers : one of `LAYERS`.
    start : where a sentence starts, `(layers, 2, 1, ...)`; if `stateful`, the first.
    stateful : the others start where the one before them ended.
    batch_tokens : bound of a batch, see `batches_by_length`.
    with_index : write `sentence_to_index`.
    """

    bilm: FrozenBiLm
    text: Corpus
    folder: Path
    layers: str
    start: LstmState
    stateful: bool
    batch_tokens: int
    with_index: bool

    def __post_init__(self) -> None:
        self.done = Checkpoint()
        self.device = self.start.hidden.device
        self.settings: Settings = {
            "the text": self.text.digest,
            "the biLM": self.bilm.digest(),
            "the initial state": _digest(self.start),
            "the version of this command": VERSION,
            "--layers": self.layers,
            "--precision": self.bilm.precision,
            "--device": self.device.type,
            "--batch-tokens": self.batch_tokens,
            "--stateful": self.stateful,
            "--forget-sentences": not self.with_index,
        }

    def prepare(self) -> Checkpoint:
        """Lays out the file, or finds how far a run that was stopped came; returns where to go on."""
        if (self.folder / CHECKPOINT).exists():
            self.done = Checkpoint.load(self.folder, self.settings)
        else:
            lay_out(
                self.folder,
                self.text,
                layers=self.bilm.num_layers if self.layers == "all" else None,
                dim=self.bilm.options.output_dim,
                with_index=self.with_index,
            )
            self.done.save(self.folder, self.settings)
        return self.done

    def encode(self) -> None:
        """
        Writes the vectors of all lines that are not done yet. Whatever stops it carries a note of how to go
        on.

        # Raises
        `ConfigurationError`: a batch does not fit into the device's memory. `OSError`: from the disk.
        """
        bar = Tqdm.tqdm(
            desc="embed", total=self.text.tokens, initial=self.done.tokens, unit=" tokens", unit_scale=True
        )
        try:
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
        except BaseException as error:
            error.add_note(
                f"{self.done.lines:,} of {len(self.text):,} lines are done, "
                "and the same command with --resume goes on from there"
            )
            raise

    def _sentences(self, first: int) -> Iterator[NumberedSentence]:
        """Of line `first` and all behind it; a window starts with it."""
        for number, line in enumerate(self.text.lines(first), start=first):
            yield NumberedSentence(number, line.split())

    def _batches(self, window: list[NumberedSentence]) -> Iterable[list[NumberedSentence]]:
        if self.stateful:
            return ([sentence] for sentence in window if sentence.words)
        return batches_by_length(window, self.batch_tokens)

    def _vectors(
        self, batch: list[NumberedSentence], carried: LstmState | None
    ) -> tuple[np.ndarray, LstmState | None]:
        """
        *Shape:* `(layers, sentences, longest, dim)`, with one layer if one is asked for; and the state to
        carry to the next batch, if any.
        """
        ids = padded_ids(batch, self.bilm)
        try:
            if self.stateful:
                layers, carried = self.bilm(ids, carried or self.start)
            else:
                layers = self.bilm.encode(ids, self.start)
        except torch.OutOfMemoryError as error:
            sentences, tokens = ids.shape[:2]
            raise ConfigurationError(
                f"{self.device} has too little memory for {sentences} sentences of {tokens:,} tokens"
            ) from error
        if not torch.isfinite(layers).all():
            rows = (~torch.isfinite(layers)).any(dim=3).any(dim=2).any(dim=0)
            line = batch[int(rows.int().argmax())].number
            raise ConfigurationError(
                f"line {line + 1}: found vectors that are not finite, expected finite ones; "
                "the weights are damaged, or the options are of another biLM"
            )
        if self.layers == "top":
            layers = layers[-1:]
        elif self.layers == "average":
            layers = layers.mean(dim=0, keepdim=True)
        return layers.cpu().numpy(), carried

    def _finish_window(self, file: VectorFile, done: Checkpoint) -> None:
        file.sync()
        done.save(self.folder, self.settings)
        self.done = done


def _count(sentences: Iterable[NumberedSentence]) -> int:
    return sum(len(sentence.words) for sentence in sentences)


def _digest(state: LstmState) -> str:
    hashed = blake2b(digest_size=16)
    for part in state:
        hashed.update(part.cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()
