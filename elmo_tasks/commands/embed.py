"""The verb `embed`: vectors of a text."""

import os
import time
from itertools import islice

import numpy as np
from allennlp.common.checks import ConfigurationError
from torch import get_num_threads

from elmo_tasks.commands.arguments import FORMATS, BilmArguments, copy_corpus, read_start
from elmo_tasks.commands.base import (
    DType,
    Input,
    Positive,
    Verb,
    flag,
    option,
    positional,
    refuse_given,
    text_argument,
    titled,
)
from elmo_tasks.commands.partial_outputs import RayArguments, RunArguments, engine_of, run_folder
from elmo_tasks.common.machine import available_memory
from elmo_tasks.common.text_checks import CHECKED
from elmo_tasks.data.input_files import InputError, read_sentences
from elmo_tasks.elmo.model.array_file import needing_h5py
from elmo_tasks.embedding.batches import BATCH_TOKENS, POOLS, WINDOW_TOKENS, BatchEncoder, check_layers
from elmo_tasks.embedding.corpus import TEXT
from elmo_tasks.jobs.embed import EmbedJob
from elmo_tasks.jobs.engines import CAN_FORK, ForkEngine, LocalEngine, RayEngine, run_job
from elmo_tasks.jobs.locations import WORK, Folder, input_sources, texts_among
from elmo_tasks.jobs.runs import PLAN, Reading, Settings, prepare_folder
from elmo_tasks.jobs.sinks import Hdf5Sink, ParquetSink

SHARD_BYTES = 1 << 16
SHARDS_OF_FORKS = 4
"""The number of shards from which on they are done by several processes."""
FORK_BYTES = 300_000_000
"""The memory of such a process, in addition to the vectors that it has not yet written."""
SEQVEC = "https://rostlab.org/~deepppi/seqvec.zip"
"""SeqVec's options and weights, in the folder `uniref50_v2`."""


class EmbedRayArguments(RayArguments):
    """The workers on Ray, and the Parquet that they read and write."""

    column: str | None = option("column of Parquet: text or tokens (default: tokens, text or sentence)")
    skip_bad: bool = flag("lines that cannot be read go to OUT/_rejected.jsonl")


class Embed(Verb):
    name = "embed"
    help = "Vectors of a text, to HDF5, or on Ray to Parquet."
    description = """Writes the vectors of a text, one tokenised sentence a line, to HDF5: datasets "0", "1",
        ..., one a line, and sentence_to_index, the lines' numbers as JSON. An empty line has a dataset of no
        tokens. A FASTA file has a dataset a protein, by the first word of its header; its residues are the
        tokens. OUT appears when it is complete. Until then the work is in OUT.partial, for --resume.
        With --engine ray, IN may be Parquet, s3:// and gs://; OUT is a folder of Parquet files, there or
        here, and complete when it has _manifest.json."""

    input: str = text_argument("IN")
    output: str = positional("OUT", "HDF5 file, or folder of Parquet files, to write")
    layers: str = option(
        "all: (layers, tokens, dim), the token layer first; top, average, sum, or the number of a layer: "
        "(tokens, dim)",
        "all",
    )
    pool: str = option(
        "mean: of the tokens, or residues; (layers, dim), of one layer (dim,)", "none", choices=POOLS
    )
    format: str = option("format of IN: a sentence a line, or proteins", "text", choices=FORMATS)
    tokenize: str | None = option(
        "split raw text by spaCy's rules for a language, such as en; into characters; or by a model of "
        "spaCy (default: tokens stand between blanks)",
        metavar="LANGUAGE",
    )
    bilm: BilmArguments
    batch_tokens: Positive = option("positions of a batch at most, padding included", BATCH_TOKENS)
    initial_state: Input | None = option(
        "where each sentence starts: HDF5, as calibrate writes it", metavar="FILE", exclusive="start"
    )
    stateful: bool = flag(
        "each sentence starts where the one before it ended, as in bilm-tf; slower: one at a time",
        exclusive="start",
    )
    dtype: DType = option("type of the vectors; float16 rounds them, and takes half of the space", "float32")
    forget_sentences: bool = flag("leave out sentence_to_index")
    mode: RunArguments
    ray: EmbedRayArguments = titled("with --engine ray")

    def run(self) -> None:
        engine = engine_of(self.mode, self.ray, self.output)
        if isinstance(engine, RayEngine):
            self._to_parquet(engine)
        else:
            self._to_hdf5()

    def _to_hdf5(self) -> None:
        began = time.monotonic()
        output = self.output
        if self.input.endswith(".parquet"):
            raise InputError("Parquet files need --engine ray", where=self.input)
        with needing_h5py(output):
            from elmo_tasks.embedding.vector_file import check_name, check_writable
        check_name(output)
        with run_folder(output, self.mode) as folder:
            if folder is None:
                return
            work, encoder = folder.path / WORK, self._encoder()
            text = copy_corpus(self.input, work, format=self.format, tokenize=self.tokenize)
            if self.format == "fasta" and self.bilm.weight_file is None:
                raise ConfigurationError(
                    "--format fasta needs a biLM of proteins, since the default one reads English; name one, "
                    f"such as {SEQVEC}, by --options-file and --weight-file"
                )
            with_index = not (self.forget_sentences or text.has_keys)
            dim = encoder.bilm.options.output_dim
            if PLAN not in folder.names():
                vectors = encoder.num_layers * (text.tokens if self.pool == "none" else len(text))
                # The parts are on the disk until the file is complete.
                size = 2 * vectors * dim * np.dtype(self.dtype).itemsize
                check_writable(work, text, size=size, with_index=with_index)
            job = EmbedJob(
                encoder=encoder,
                device=self.bilm.device,
                reading=Reading(str(work)),
                sink=Hdf5Sink(
                    folder, output, text=text, shape=encoder.shape, dtype=self.dtype, with_index=with_index
                ),
                has_keys=text.has_keys,
            )
            settings = {
                "the text": text.digest,
                **self._settings(encoder),
                "--pool": self.pool,
                "--batch-tokens": self.batch_tokens,
                "--stateful": self.stateful,
                "--forget-sentences": self.forget_sentences,
            }
            run_job(
                job,
                self._engine(encoder, (work / TEXT).stat().st_size),
                name="embed",
                sources=[TEXT],
                settings=settings,
                shard_bytes=SHARD_BYTES,
            )
        seconds = time.monotonic() - began
        print(f"{output}: {len(text):,} sentences, {text.tokens:,} tokens, {seconds:.1f} s")

    def _engine(self, encoder: BatchEncoder, size: int) -> LocalEngine | ForkEngine:
        """Returns the engine for a text of `size` bytes: a process for each thread that has the memory."""
        alone = self.stateful or self.bilm.device != "cpu" or not CAN_FORK
        if alone or get_num_threads() == 1 or size < SHARDS_OF_FORKS * SHARD_BYTES:
            return LocalEngine()
        layers = 4 * encoder.bilm.num_layers * encoder.bilm.options.output_dim
        fits = available_memory() // (FORK_BYTES + 3 * WINDOW_TOKENS * layers)
        workers = min(get_num_threads(), size // SHARD_BYTES, fits)
        return ForkEngine(workers) if workers > 1 else LocalEngine()

    def _to_parquet(self, engine: RayEngine) -> None:
        here_alone = ("stateful", "forget_sentences", "pool", "format", "tokenize")
        refuse_given(self, "is not for --engine ray", names=here_alone)
        began = time.monotonic()
        output, ray = self.output, self.ray
        folder = Folder(output)
        sources = texts_among(input_sources(self.input), self.input, [output])
        if not prepare_folder(folder, resume=self.mode.resume, force=self.mode.force):
            print(f"{output} is complete already")
            return
        for source in sources:
            if os.path.isfile(source) and not (source.endswith(".parquet") or ray.skip_bad):
                for _ in islice(read_sentences(source), CHECKED):
                    pass
        # Workers may have a GPU where this process has none.
        encoder = self._encoder(device="cpu")
        settings = {**self._settings(encoder), "--column": ray.column}
        job = EmbedJob(
            encoder=encoder,
            # Ray shows a worker its own GPU alone, as the first.
            device=self.bilm.device.partition(":")[0],
            skip_bad=ray.skip_bad,
            reading=Reading(os.getcwd(), column=ray.column, check_utf8=not ray.skip_bad),
            sink=ParquetSink(
                folder,
                layers=encoder.num_layers,
                dim=encoder.bilm.options.output_dim,
                dtype=self.dtype,
                about={"settings": settings, "layers": self.layers},
            ),
        )
        size = ray.shard_bytes
        run = run_job(job, engine, name="embed", sources=sources, settings=settings, shard_bytes=size)
        seconds = time.monotonic() - began
        print(
            f"{output}: {run.total('sentences'):,} sentences, {run.total('tokens'):,} tokens, "
            f"{run.total('rejected'):,} rejected lines, {len(run.shards):,} files, {seconds:.1f} s"
        )

    def _encoder(self, *, device: str | None = None) -> BatchEncoder:
        bilm = self.bilm.read(device=device)
        check_layers(self.layers, bilm.num_layers, option="--layers")
        return BatchEncoder(
            bilm=bilm,
            start=read_start(self.initial_state, bilm),
            layers=self.layers,
            pool=self.pool,
            stateful=self.stateful,
            batch_tokens=self.batch_tokens,
            dtype=self.dtype,
        )

    def _settings(self, encoder: BatchEncoder) -> Settings:
        return {
            "the biLM": encoder.bilm.digest(),
            "the initial state": encoder.start.digest(),
            "--layers": self.layers,
            "--dtype": self.dtype,
            "--precision": self.bilm.precision,
            "--device": self.bilm.device.partition(":")[0],
        }
