"""`allennlp elmo embed`: the vectors of a text, to HDF5 in this process, or to Parquet on Ray."""

import os
import time
from dataclasses import dataclass

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import BilmArguments, read_start
from elmo_tasks.commands.base import Source, Verb, flag, option, positional, positive, text_argument, titled
from elmo_tasks.commands.engines import RayArguments, RunArguments, engine_of, run_folder
from elmo_tasks.commands.staging import FORMATS, copy_corpus
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.embedding.batches import BATCH_TOKENS, LAYERS, POOLS
from elmo_tasks.embedding.corpus import TEXT
from elmo_tasks.embedding.vector_file import lay_out
from elmo_tasks.jobs.embed import EmbedJob
from elmo_tasks.jobs.engines import Here, OnRay, run_job
from elmo_tasks.jobs.places import Folder, input_sources, texts_among
from elmo_tasks.jobs.runs import PLAN, Settings, must_run
from elmo_tasks.jobs.shards import Reading
from elmo_tasks.jobs.sinks import Hdf5Sink

SHARD_BYTES = 1 << 17
"""The bytes of text between two notes of a run to HDF5."""
DTYPES = ("float32", "float16")
"""The types of vectors in Parquet."""


@dataclass(frozen=True, kw_only=True)
class EmbedRayArguments(RayArguments):
    """The workers on Ray, and the Parquet that they read and write."""

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
    run: RunArguments
    ray: EmbedRayArguments = titled("with --engine ray")


class Embed(Verb[EmbedArguments]):
    """The verb `embed`; see `embedding.vector_file` and `jobs.parquet` for what it writes."""

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
        engine = engine_of(arguments.run, arguments.ray)
        if isinstance(engine, OnRay):
            _to_parquet(arguments, engine)
        else:
            _to_hdf5(arguments, engine)


def _to_hdf5(arguments: EmbedArguments, engine: Here) -> None:
    began = time.monotonic()
    output = arguments.output
    with run_folder(output, arguments.run) as folder:
        if folder is None:
            return
        bilm = arguments.bilm.read()
        text = copy_corpus(arguments.input, folder.path, format=arguments.format)
        if PLAN not in folder.names():
            lay_out(
                folder.path,
                text,
                layers=bilm.num_layers if arguments.layers == "all" else None,
                dim=bilm.options.output_dim,
                pooled=arguments.pool != "none",
                with_index=not (arguments.forget_sentences or text.has_keys),
            )
        start = read_start(arguments.initial_state, bilm)
        job = EmbedJob(
            bilm=bilm,
            start=start,
            device=arguments.bilm.device,
            layers=arguments.layers,
            pool=arguments.pool,
            stateful=arguments.stateful,
            batch_tokens=arguments.batch_tokens,
            reading=Reading(str(folder.path), checked=False, marked=False),
            sink=Hdf5Sink(folder, output),
        )
        settings = {
            "the text": text.digest,
            **_settings(arguments, bilm, start),
            "--pool": arguments.pool,
            "--batch-tokens": arguments.batch_tokens,
            "--stateful": arguments.stateful,
            "--forget-sentences": arguments.forget_sentences,
        }
        run = run_job(job, engine, name="embed", sources=[TEXT], settings=settings, shard_bytes=SHARD_BYTES)
    seconds = time.monotonic() - began
    print(
        f"{output}: {len(text):,} sentences, {text.tokens:,} tokens, "
        f"{run.total('tokens', new=True) / seconds:,.0f} tokens/s, {seconds:.1f} s"
    )


def _to_parquet(arguments: EmbedArguments, engine: OnRay) -> None:
    from elmo_tasks.jobs.parquet import ParquetSink

    defaults = {"stateful": False, "forget_sentences": False, "pool": "none", "format": "text"}
    for name, default in defaults.items():
        if getattr(arguments, name) != default:
            raise ConfigurationError(f"--{name.replace('_', '-')} is not for --engine ray")
    began = time.monotonic()
    output, ray = arguments.output, arguments.ray
    folder = Folder(output)
    sources = texts_among(input_sources(arguments.input), arguments.input, [output])
    if not must_run(folder, resume=arguments.run.resume, force=arguments.run.force):
        print(f"{output} is whole already")
        return
    # Workers may have a GPU where this process has none.
    bilm = arguments.bilm.read(device="cpu")
    start = read_start(arguments.initial_state, bilm)
    dtype = ray.dtype or "float32"
    settings = {
        **_settings(arguments, bilm, start),
        "--dtype": dtype,
        "--column": ray.column,
    }
    job = EmbedJob(
        bilm=bilm,
        start=start,
        # Ray shows a worker its own GPU alone, as the first.
        device=arguments.bilm.device.partition(":")[0],
        layers=arguments.layers,
        batch_tokens=arguments.batch_tokens,
        dtype=dtype,
        skip_bad=ray.skip_bad,
        reading=Reading(os.getcwd(), column=ray.column, checked=not ray.skip_bad),
        sink=ParquetSink(
            folder,
            layers=bilm.num_layers if arguments.layers == "all" else 1,
            dim=bilm.options.output_dim,
            dtype=dtype,
            about={"settings": settings, "layers": arguments.layers},
        ),
    )
    size = ray.shard_bytes
    run = run_job(job, engine, name="embed", sources=sources, settings=settings, shard_bytes=size)
    if run.complete:
        print(f"{output} is whole already")
        return
    seconds = time.monotonic() - began
    print(
        f"{output}: {run.total('sentences'):,} sentences, {run.total('tokens'):,} tokens, "
        f"{run.total('rejected'):,} rejected lines, {len(run.shards):,} files, {seconds:.1f} s"
    )


def _settings(arguments: EmbedArguments, bilm: FrozenBiLm, start: LstmState) -> Settings:
    return {
        "the biLM": bilm.digest(),
        "the initial state": start.digest(),
        "--layers": arguments.layers,
        "--precision": arguments.bilm.precision,
        "--device": arguments.bilm.device.partition(":")[0],
    }
