"""`allennlp elmo embed`: the vectors of a text, in the layout of the former `allennlp elmo`."""

import argparse
import time
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.atomic_files import put_in_place
from elmo_tasks.commands.base import Verb, add_text_argument, positive
from elmo_tasks.commands.bilm_arguments import add_bilm_arguments, read_bilm
from elmo_tasks.commands.corpus import FORMATS, copy_corpus
from elmo_tasks.commands.staging import add_force_argument, check_output, staging_folder
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.sources import read_initial_state
from elmo_tasks.embedding.checkpoint import CHECKPOINT
from elmo_tasks.embedding.hdf5_run import BATCH_TOKENS, LAYERS, POOLS, Embedding
from elmo_tasks.embedding.vector_file import VECTORS


class Embed(Verb):
    """See `embedding.vector_file` for what comes out, and the class `Embedding` for how."""

    name = "embed"
    help = "Vectors of a text, to HDF5."
    description = """Writes the vectors of a text, one tokenised sentence a line, to HDF5: datasets "0", "1",
        ..., one a line, and sentence_to_index, the lines' numbers as JSON. An empty line has a dataset of no
        tokens. Of a FASTA file there is a dataset a protein, by the first word of its header; its residues
        are the tokens. OUT appears when it is whole. Until then the work is in OUT.partial, for --resume."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_text_argument(parser, metavar="IN")
        parser.add_argument("output", metavar="OUT", type=Path, help="HDF5 file to write")
        parser.add_argument(
            "--layers",
            choices=LAYERS,
            default="all",
            help="all: (layers, tokens, dim), the token layer first; top, average: (tokens, dim)",
        )
        parser.add_argument(
            "--pool",
            choices=POOLS,
            default="none",
            help="mean: of the tokens, or residues; (layers, dim), with --layers top or average (dim,)",
        )
        parser.add_argument(
            "--format", choices=FORMATS, default="text", help="of IN: a sentence a line, or proteins"
        )
        add_bilm_arguments(parser)
        parser.add_argument(
            "--batch-tokens",
            type=positive,
            default=BATCH_TOKENS,
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
            with copy_corpus(arguments.input, folder, format=arguments.format) as text:
                embedding = Embedding(
                    bilm=bilm,
                    text=text,
                    folder=folder,
                    layers=arguments.layers,
                    pool=arguments.pool,
                    start=_start(arguments.initial_state, bilm),
                    stateful=arguments.stateful,
                    batch_tokens=arguments.batch_tokens,
                    with_index=not arguments.forget_sentences,
                )
                before = embedding.prepare()
                try:
                    embedding.encode()
                except BaseException as error:
                    error.add_note(
                        f"{embedding.done.lines:,} of {len(text):,} lines are done, "
                        "and the same command with --resume goes on from there"
                    )
                    raise
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
