"""
The arguments that say where a verb runs: in this process, or on Ray.

`allennlp elmo embed --engine ray`: from its arguments to a run.

`allennlp elmo embed`: the vectors of a text, in the layout of the former `allennlp elmo`.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands.arguments import BilmArguments, read_start
from elmo_tasks.commands.base import Source, Verb, flag, option, positional, positive, text_argument, titled
from elmo_tasks.commands.staging import FORMATS, check_output, copy_corpus, staging_folder
from elmo_tasks.common.files import put_in_place
from elmo_tasks.embedding.hdf5 import BATCH_TOKENS, CHECKPOINT, POOLS, Hdf5Run
from elmo_tasks.embedding.vector_file import LAYERS, VECTORS
from elmo_tasks.jobs.embed import embed, embed_job
from elmo_tasks.jobs.pool import Engine
from elmo_tasks.jobs.runs import RunRequest
from elmo_tasks.jobs.shards import Reading
from elmo_tasks.jobs.storage import Folder

# ==== commands.engines
ENGINES = ("local", "ray")


def engine_option() -> Any:
    return option("local: this process; ray: workers", choices=ENGINES, default="local")


@dataclass(frozen=True, kw_only=True)
class RayArguments:
    """The workers on Ray."""

    workers: int | None = option(
        "processes of one thread each (default: one a processor)", type=positive, metavar="N"
    )
    ray_address: str | None = option("address of a cluster (default: a Ray for this run alone)", metavar="A")
    shard_bytes: int | None = option(
        "bytes of IN that a worker reads at a time and writes as one file (default: 16 KiB to 1 MiB, more "
        "for a larger IN)",
        type=positive,
        metavar="N",
    )


def engine_of(name: str, ray: RayArguments, **more: bool) -> Engine | None:
    """
    Returns what the arguments say of Ray, or `None` to stay in this process.

    # Parameters

    more : other arguments that belong to Ray.

    # Raises
    `ConfigurationError`: arguments of Ray without it; or Ray is not installed.
    """
    if name == "local":
        for argument, value in (asdict(ray) | more).items():
            if value not in (None, False):
                raise ConfigurationError(f"--{argument.replace('_', '-')} belongs to --engine ray")
        return None
    if missing := [package for package in ("ray", "pyarrow") if find_spec(package) is None]:
        raise ConfigurationError(
            f"--engine ray needs {' and '.join(missing)}, not installed here: make install EXTRAS='ray'"
        )
    return Engine(ray.workers, ray.ray_address, ray.shard_bytes)


# ==== commands.embed_on_ray
def embed_on_ray(arguments: "EmbedArguments", engine: Engine) -> None:
    """
    # Raises
    `ConfigurationError`: an argument of HDF5, which has other files; and see `embed`.
    """
    _refuse_arguments_of_hdf5(arguments)
    began = time.monotonic()
    # Workers may have a GPU where this process has none.
    bilm = arguments.bilm.read(device="cpu")
    start = read_start(arguments.initial_state, bilm)
    job = embed_job(
        bilm,
        start,
        device=arguments.bilm.device,
        layers=arguments.layers,
        dtype=arguments.ray.dtype or "float32",
        batch_tokens=arguments.batch_tokens,
        folder=Folder(str(arguments.output)),
        reading=Reading(os.getcwd(), column=arguments.ray.column, checked=not arguments.ray.skip_bad),
        skip_bad=arguments.ray.skip_bad,
    )
    request = RunRequest(
        source=arguments.input,
        settings={
            "the biLM": bilm.digest(),
            "the initial state": start.digest(),
            "--layers": arguments.layers,
            "--precision": arguments.bilm.precision,
            "--device": arguments.bilm.device,
            "--dtype": job.dtype,
            "--column": arguments.ray.column,
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


def _refuse_arguments_of_hdf5(arguments: "EmbedArguments") -> None:
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


@dataclass(frozen=True, kw_only=True)
class EmbedRayArguments(RayArguments):
    """What `embed` alone has on Ray."""

    dtype: str | None = option("type of the vectors (default: float32)", choices=DTYPES)
    column: str | None = option("column of Parquet: text or tokens (default: tokens, text or sentence)")
    skip_bad: bool = flag("lines that cannot be read go to OUT/_rejected.jsonl")


@dataclass(frozen=True, kw_only=True)
class EmbedArguments:
    """The arguments of `embed`."""

    input: str = text_argument("IN")
    output: str = positional("OUT", "HDF5 file, or folder of Parquet files, to write")
    layers: str = option(
        "all: (layers, tokens, dim), the token layer first; top, average: (tokens, dim)",
        choices=LAYERS,
        default="all",
    )
    pool: str = option(
        "mean: of the tokens, or residues; (layers, dim), with --layers top or average (dim,)",
        choices=POOLS,
        default="none",
    )
    format: str = option("format of IN: a sentence a line, or proteins", choices=FORMATS, default="text")
    bilm: BilmArguments
    batch_tokens: int = option(
        "positions of a batch at most, padding included", type=positive, default=BATCH_TOKENS
    )
    initial_state: str | None = option(
        "where each sentence starts: HDF5, as calibrate writes it",
        type=Source,
        metavar="FILE",
        exclusive="start",
    )
    stateful: bool = flag(
        "each sentence starts where the one before it ended, as in bilm-tf; slower: one at a time",
        exclusive="start",
    )
    forget_sentences: bool = flag("leave out sentence_to_index")
    resume: bool = flag("continue a run that was stopped: the same IN and options", exclusive="again")
    force: bool = flag("overwrite OUT, discard a run that was stopped", exclusive="again")
    engine: str = engine_option()
    ray: EmbedRayArguments = titled("with --engine ray")


class Embed(Verb[EmbedArguments]):
    """The verb `embed`; see `embedding.vector_file` for what comes out, and the class `Hdf5Run` for how."""

    name = "embed"
    help = "Vectors of a text, to HDF5, or on Ray to Parquet."
    description = """Writes the vectors of a text, one tokenised sentence a line, to HDF5: datasets "0", "1",
        ..., one a line, and sentence_to_index, the lines' numbers as JSON. An empty line has a dataset of no
        tokens. Of a FASTA file there is a dataset a protein, by the first word of its header; its residues
        are the tokens. OUT appears when it is whole. Until then the work is in OUT.partial, for --resume.
        With --engine ray, IN may be Parquet, s3:// and gs://; OUT is a folder of Parquet files, there or
        here, and whole when it has _manifest.json."""
    arguments = EmbedArguments

    def run(self, arguments: EmbedArguments) -> None:
        engine = engine_of(arguments.engine, arguments.ray)
        if engine is not None:
            embed_on_ray(arguments, engine)
            return
        began = time.monotonic()
        output = Path(arguments.output)
        with staging_folder(output, keep=(CHECKPOINT, _REPLACES)) as folder:
            if not _must_run(output, folder, resume=arguments.resume, force=arguments.force):
                print(f"{output} is there, and no run to go on with; --force makes it anew")
                return
            bilm = arguments.bilm.read()
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
