"""`allennlp elmo embed`: the vectors of a text, in the layout of the former `allennlp elmo`."""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_tasks.atomic_files import put_in_place
from elmo_tasks.commands.base import Verb, add_text_argument, positive
from elmo_tasks.commands.bilm_arguments import add_bilm_arguments, read_bilm, read_start
from elmo_tasks.commands.corpus import FORMATS, copy_corpus
from elmo_tasks.commands.engines import add_engine_arguments, engine_of
from elmo_tasks.commands.sources import Source
from elmo_tasks.commands.staging import add_force_argument, check_output, staging_folder
from elmo_tasks.embedding.checkpoint import CHECKPOINT
from elmo_tasks.embedding.hdf5_run import BATCH_TOKENS, POOLS, Hdf5Run
from elmo_tasks.embedding.layers import LAYERS
from elmo_tasks.embedding.vector_file import VECTORS

DTYPES = ("float32", "float16")
"""Of the vectors in Parquet."""
_REPLACES = "replaces"
"""A file in OUT.partial: what is at OUT is to be replaced, though there is no checkpoint yet."""


class Embed(Verb):
    """See `embedding.vector_file` for what comes out, and the class `Hdf5Run` for how."""

    name = "embed"
    help = "Vectors of a text, to HDF5, or on Ray to Parquet."
    description = """Writes the vectors of a text, one tokenised sentence a line, to HDF5: datasets "0", "1",
        ..., one a line, and sentence_to_index, the lines' numbers as JSON. An empty line has a dataset of no
        tokens. Of a FASTA file there is a dataset a protein, by the first word of its header; its residues
        are the tokens. OUT appears when it is whole. Until then the work is in OUT.partial, for --resume.
        With --engine ray, IN may be Parquet, s3:// and gs://; OUT is a folder of Parquet files, there or
        here, and whole when it has _manifest.json."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_text_argument(parser, metavar="IN")
        parser.add_argument("output", metavar="OUT", help="HDF5 file, or folder of Parquet files, to write")
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
            "--initial-state",
            type=Source,
            metavar="FILE",
            help="where each sentence starts: HDF5, as calibrate writes it",
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
        on_ray = add_engine_arguments(parser)
        on_ray.add_argument("--dtype", choices=DTYPES, help="of the vectors (default: float32)")
        on_ray.add_argument("--column", help="of Parquet: text or tokens (default: tokens, text or sentence)")
        on_ray.add_argument(
            "--skip-bad", action="store_true", help="lines that cannot be read go to OUT/_rejected.jsonl"
        )

    def run(self, arguments: argparse.Namespace) -> None:
        engine = engine_of(arguments, "dtype", "column", "skip_bad")
        if engine is not None:
            from elmo_tasks.commands.embed_on_ray import embed_on_ray

            embed_on_ray(arguments, engine)
            return
        began = time.monotonic()
        output = Path(arguments.output)
        with staging_folder(output, keep=(CHECKPOINT, _REPLACES)) as folder:
            if not _must_run(output, folder, resume=arguments.resume, force=arguments.force):
                print(f"{output} is there, and no run to go on with; --force makes it anew")
                return
            bilm = read_bilm(arguments)
            with _replacing(output, folder / _REPLACES):
                text = copy_corpus(arguments.input, folder, format=arguments.format)
                run = Hdf5Run(
                    bilm=bilm,
                    text=text,
                    folder=folder,
                    layers=arguments.layers,
                    pool=arguments.pool,
                    start=read_start(arguments.initial_state, bilm),
                    stateful=arguments.stateful,
                    batch_tokens=arguments.batch_tokens,
                    with_index=not arguments.forget_sentences,
                )
                before = run.prepare()
                (folder / _REPLACES).unlink(missing_ok=True)
                try:
                    run.encode()
                except BaseException as error:
                    error.add_note(
                        f"{run.done.lines:,} of {len(text):,} lines are done, "
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


@contextmanager
def _replacing(output: Path, marker: Path) -> Iterator[None]:
    """Leaves the marker to a run that is stopped, and to be resumed, but not to one that ends in an error."""
    if output.exists():
        marker.touch()
    try:
        yield
    except SigTermReceived:
        raise
    except Exception:
        marker.unlink(missing_ok=True)
        raise


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
    replaces = folder / _REPLACES
    must_run = not (resume and output.is_file()) or replaces.exists()
    if must_run:
        check_output(output, force=force or (resume and replaces.exists()))
    checkpoint.unlink(missing_ok=True)
    return must_run
