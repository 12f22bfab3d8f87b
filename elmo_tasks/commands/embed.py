"""
The arguments that say where a verb runs: in this process, or on Ray.

`allennlp elmo embed --engine ray`: from its arguments to a run.

`allennlp elmo embed`: the vectors of a text, in the layout of the former `allennlp elmo`.
"""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands.arguments import add_bilm_arguments, read_bilm, read_start
from elmo_tasks.commands.base import Source, Verb, add_text_argument, positive
from elmo_tasks.commands.staging import FORMATS, add_force_argument, check_output, copy_corpus, staging_folder
from elmo_tasks.common.files import put_in_place
from elmo_tasks.embedding.hdf5 import BATCH_TOKENS, CHECKPOINT, POOLS, Hdf5Run
from elmo_tasks.embedding.vector_file import LAYERS, VECTORS
from elmo_tasks.jobs.embed import embed, embed_job
from elmo_tasks.jobs.pool import Engine
from elmo_tasks.jobs.runs import RunRequest
from elmo_tasks.jobs.shards import Reading
from elmo_tasks.jobs.storage import Folder

# ==== commands.engines
if TYPE_CHECKING:
    from elmo_tasks.jobs.pool import Engine

ENGINES = ("local", "ray")


def add_engine_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The group to which a verb adds what it alone has on Ray; `None` is the default of each."""
    parser.add_argument(
        "--engine", choices=ENGINES, default="local", help="local: this process; ray: workers"
    )
    group = parser.add_argument_group("with --engine ray")
    group.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="processes of one thread each (default: one a processor)",
    )
    group.add_argument(
        "--ray-address", metavar="A", help="address of a cluster (default: a Ray for this run alone)"
    )
    group.add_argument(
        "--shard-bytes",
        type=positive,
        metavar="N",
        help="bytes of IN that a worker reads at a time and writes as one file "
        "(default: 16 KiB to 1 MiB, more for a larger IN)",
    )
    return group


def engine_of(arguments: argparse.Namespace, *names: str) -> "Engine | None":
    """
    What the arguments say of Ray, or `None` to stay in this process.

    # Parameters

    names : the arguments that the verb alone has on Ray.

    # Raises
    `ConfigurationError`: arguments of Ray without it; or Ray is not installed.
    """
    if arguments.engine == "local":
        for name in ("workers", "ray_address", "shard_bytes", *names):
            if getattr(arguments, name) not in (None, False):
                raise ConfigurationError(f"--{name.replace('_', '-')} belongs to --engine ray")
        return None
    if missing := [name for name in ("ray", "pyarrow") if find_spec(name) is None]:
        raise ConfigurationError(
            f"--engine ray needs {' and '.join(missing)}, not installed here: make install EXTRAS='ray'"
        )
    from elmo_tasks.jobs.pool import Engine

    return Engine(arguments.workers, arguments.ray_address, arguments.shard_bytes)


# ==== commands.embed_on_ray
def embed_on_ray(arguments: argparse.Namespace, engine: Engine) -> None:
    """
    # Raises
    `ConfigurationError`: an argument of HDF5, which has other files; and see `embed`.
    """
    _refuse_arguments_of_hdf5(arguments)
    began = time.monotonic()
    # Workers may have a GPU where this process has none.
    bilm = read_bilm(arguments, device="cpu")
    start = read_start(arguments.initial_state, bilm)
    job = embed_job(
        bilm,
        start,
        device=arguments.device,
        layers=arguments.layers,
        dtype=arguments.dtype or "float32",
        batch_tokens=arguments.batch_tokens,
        folder=Folder(str(arguments.output)),
        reading=Reading(os.getcwd(), column=arguments.column, checked=not arguments.skip_bad),
        skip_bad=arguments.skip_bad,
    )
    request = RunRequest(
        source=arguments.input,
        settings={
            "the biLM": bilm.digest(),
            "the initial state": start.digest(),
            "--layers": arguments.layers,
            "--precision": arguments.precision,
            "--device": arguments.device,
            "--dtype": job.dtype,
            "--column": arguments.column,
        },
        engine=engine,
        resume=arguments.resume,
        force=arguments.force,
    )
    run = embed(job, request)
    if run is None:
        print(f"{arguments.output} is whole already")
        return
    seconds = time.monotonic() - began
    print(
        f"{arguments.output}: {run.total('sentences'):,} sentences, {run.total('tokens'):,} tokens, "
        f"{run.total('rejected'):,} rejected lines, {len(run.shards):,} files, {seconds:.1f} s"
    )


def _refuse_arguments_of_hdf5(arguments: argparse.Namespace) -> None:
    """
    # Raises
    `ConfigurationError`: one of them is given.
    """
    defaults = {"stateful": False, "forget_sentences": False, "pool": "none", "format": "text"}
    for name, default in defaults.items():
        if getattr(arguments, name) != default:
            raise ConfigurationError(f"--{name.replace('_', '-')} is not for --engine ray")


# ==== commands.embed
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
