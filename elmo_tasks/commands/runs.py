"""The verbs that can be resumed and may run on Ray: `embed` and `predict`."""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands.arguments import BilmArguments, read_start
from elmo_tasks.commands.base import (
    DType,
    Gpu,
    Input,
    Positive,
    Subparsers,
    Verb,
    archive_argument,
    device_option,
    flag,
    option,
    positional,
    refuse_given,
    text_argument,
    titled,
)
from elmo_tasks.commands.staging import (
    FORMATS,
    check_output,
    copy_corpus,
    copy_piped,
    is_piped,
    staging_folder,
)
from elmo_tasks.common.files import CHECKED
from elmo_tasks.compat.archives import local_archive, packed_archive
from elmo_tasks.data.input_files import InputError, input_files, read_sentences
from elmo_tasks.embedding.batches import BATCH_TOKENS, LAYERS, POOLS, BatchEncoder, check_layers
from elmo_tasks.embedding.corpus import TEXT, Corpus
from elmo_tasks.embedding.vector_file import check_finished, check_name, lay_out
from elmo_tasks.jobs.embed import EmbedJob
from elmo_tasks.jobs.engines import Here, OnRay, run_job
from elmo_tasks.jobs.places import Folder, input_sources, texts_among
from elmo_tasks.jobs.predict import PredictJob
from elmo_tasks.jobs.runs import NEEDED, PLAN, REPLACES, Reading, Settings, must_run
from elmo_tasks.jobs.sinks import Hdf5Sink, JsonLinesSink
from elmo_tasks.predictors.command import predictor_arguments

ENGINES = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """How a run begins, and where."""

    resume: bool = flag("continue a run that was stopped: the same IN and options", exclusive="again")
    force: bool = flag("overwrite OUT, discard a run that was stopped", exclusive="again")
    engine: str = option("local: this process; ray: workers", "local", choices=ENGINES)


@dataclass(frozen=True, kw_only=True)
class RayArguments:
    """The workers on Ray."""

    workers: Positive | None = option("processes of one thread each (default: one a processor)", metavar="N")
    ray_address: str | None = option("address of a cluster (default: a Ray for this run alone)", metavar="A")
    shard_bytes: Positive | None = option(
        "bytes of IN that a worker reads at a time (default: 16 KiB to 1 MiB, more for a larger IN)",
        metavar="N",
    )


def engine_of(run: RunArguments, ray: RayArguments, output: str) -> Here | OnRay:
    """Returns the engine that the arguments name. Arguments and outputs of Ray without it are an error."""
    if run.engine == "local":
        refuse_given(ray, "belongs to --engine ray")
        if "://" in output:
            raise ConfigurationError(f"{output} is for --engine ray, expected the name of a file")
        return Here()
    if missing := [package for package in ("ray", "pyarrow") if find_spec(package) is None]:
        raise ConfigurationError(
            f"--engine ray needs {' and '.join(missing)}, not installed here: make install EXTRAS='ray'"
        )
    return OnRay(ray.workers, ray.ray_address)


@contextmanager
def run_folder(
    output: str, arguments: RunArguments, *, check: Callable[[Path], None] | None = None
) -> Iterator[Folder | None]:
    """
    Yields the folder OUT.partial, or `None` if there is nothing to do. On a disk it is for this process
    alone, and stays only if a later run can resume the run in it. If OUT is whole, `check` gets this folder
    to work in, and raises an error if OUT is the result of other arguments.

    # Raises
    `ConfigurationError`: no file can be written to OUT; and see `staging_folder` and `must_run`.
    """
    remote = "://" in output
    staging = nullcontext(f"{output}.partial") if remote else staging_folder(Path(output), keep=NEEDED)
    with staging as place:
        if not remote:
            check_output(Path(output), force=True)
        folder = Folder(str(place))
        if not must_run(folder, output, resume=arguments.resume, force=arguments.force):
            if check is not None:
                check(folder.path)
            print(f"{output} is there, and no run to go on with; --force makes it anew")
            yield None
            return
        try:
            yield folder
        except SigTermReceived:
            raise
        except Exception:
            # A run that ends in an error before it has a plan is not one to resume.
            folder.remove([REPLACES])
            raise


SHARD_BYTES = 1 << 17
SEQVEC = "https://rostlab.org/~deepppi/seqvec.zip"
"""SeqVec's options and weights, in the folder `uniref50_v2`."""
OF_ALLENNLP = {
    "--all": "--layers all",
    "--top": "--layers top",
    "--average": "--layers average",
    "--batch-size": "--batch-tokens",
    "--use-sentence-keys": "the dataset sentence_to_index of OUT",
    "--vocab-path": "not needed: each word is encoded once",
}
"""The options that `allennlp elmo` had in AllenNLP 0.9 and `embed` has not, and what serves for them."""


class _OptionOfAllenNlp(argparse.Action):
    """Ends with a hint."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        parser.error(f"{option} is an option of AllenNLP 0.9; here it is {OF_ALLENNLP[option]}")


def layer_choice(text: str) -> str:
    """Reads the layers that are written."""
    if text in LAYERS or text.isdecimal():
        return text
    raise argparse.ArgumentTypeError(
        f"found {text!r}, expected {', '.join(LAYERS)}, or the number of a layer"
    )


@dataclass(frozen=True, kw_only=True)
class EmbedRayArguments(RayArguments):
    """The workers on Ray, and the Parquet that they read and write."""

    dtype: DType | None = option("type of the vectors (default: float32)")
    column: str | None = option("column of Parquet: text or tokens (default: tokens, text or sentence)")
    skip_bad: bool = flag("lines that cannot be read go to OUT/_rejected.jsonl")


@dataclass(frozen=True, kw_only=True)
class Embed(Verb):
    name = "embed"
    help = "Vectors of a text, to HDF5, or on Ray to Parquet."
    description = """Writes the vectors of a text, one tokenised sentence a line, to HDF5: datasets "0", "1",
        ..., one a line, and sentence_to_index, the lines' numbers as JSON. An empty line has a dataset of no
        tokens. A FASTA file has a dataset a protein, by the first word of its header; its residues are the
        tokens. OUT appears when it is whole. Until then the work is in OUT.partial, for --resume.
        With --engine ray, IN may be Parquet, s3:// and gs://; OUT is a folder of Parquet files, there or
        here, and whole when it has _manifest.json."""

    input: str = text_argument("IN")
    output: str = positional("OUT", "HDF5 file, or folder of Parquet files, to write")
    layers: Annotated[str, layer_choice] = option(
        "all: (layers, tokens, dim), the token layer first; top, average, sum, or the number of a layer: "
        "(tokens, dim)",
        "all",
    )
    pool: str = option(
        "mean: of the tokens, or residues; (layers, dim), of one layer (dim,)",
        "none",
        choices=POOLS,
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
    forget_sentences: bool = flag("leave out sentence_to_index")
    mode: RunArguments
    ray: EmbedRayArguments = titled("with --engine ray")

    @classmethod
    def add_parser(cls, parsers: Subparsers) -> argparse.ArgumentParser:
        parser = super().add_parser(parsers)
        # AllenNLP's parser itself would add the default to the help.
        hidden = parser.add_argument_group()
        for name in OF_ALLENNLP:
            hidden.add_argument(
                name,
                action=_OptionOfAllenNlp,
                nargs=1 if name in ("--batch-size", "--vocab-path") else 0,
                help=argparse.SUPPRESS,
            )
        return parser

    def run(self) -> None:
        engine = engine_of(self.mode, self.ray, self.output)
        if isinstance(engine, OnRay):
            self._to_parquet(engine)
        else:
            self._to_hdf5(engine)

    def _to_hdf5(self, engine: Here) -> None:
        began = time.monotonic()
        output = self.output
        if self.input.endswith(".parquet"):
            raise InputError.at(self.input, found="a Parquet file", expected="a text, or --engine ray")
        check_name(output)
        with run_folder(output, self.mode, check=self._check_finished) as folder:
            if folder is None:
                return
            encoder = self._encoder()
            text = self._text(folder.path)
            if self.format == "fasta" and self.bilm.weight_file is None:
                raise ConfigurationError(
                    "--format fasta: found no --weight-file, and the biLM that comes with the project reads "
                    f"English; expected --options-file and --weight-file of one of proteins, as in {SEQVEC}"
                )
            if PLAN not in folder.names():
                lay_out(
                    folder.path,
                    text,
                    **self._shape(encoder),
                    with_index=not (self.forget_sentences or text.has_keys),
                )
            job = EmbedJob(
                encoder=encoder,
                device=self.bilm.device,
                reading=Reading(str(folder.path), checked=False, marked=False),
                sink=Hdf5Sink(folder, output),
            )
            settings = {
                "the text": text.digest,
                **self._settings(encoder),
                "--pool": self.pool,
                "--batch-tokens": self.batch_tokens,
                "--stateful": self.stateful,
                "--forget-sentences": self.forget_sentences,
            }
            run = run_job(
                job, engine, name="embed", sources=[TEXT], settings=settings, shard_bytes=SHARD_BYTES
            )
        seconds = time.monotonic() - began
        print(
            f"{output}: {len(text):,} sentences, {text.tokens:,} tokens, "
            f"{run.total('tokens', new=True) / seconds:,.0f} tokens/s, {seconds:.1f} s"
        )

    def _check_finished(self, folder: Path) -> None:
        """Raises `ElmoError` if OUT shows that it has another text, or other layers."""
        check_finished(self.output, self._text(folder), **self._shape(self._encoder()))

    def _text(self, folder: Path) -> Corpus:
        return copy_corpus(self.input, folder, format=self.format, tokenize=self.tokenize)

    def _shape(self, encoder: BatchEncoder) -> dict[str, Any]:
        """Returns the arguments of `lay_out` and `check_finished` that say which vectors are written."""
        return {
            "layers": encoder.num_layers if self.layers == "all" else None,
            "dim": encoder.bilm.options.output_dim,
            "pooled": self.pool != "none",
        }

    def _to_parquet(self, engine: OnRay) -> None:
        from elmo_tasks.jobs.sinks import ParquetSink

        here_alone = ("stateful", "forget_sentences", "pool", "format", "tokenize")
        refuse_given(self, "is not for --engine ray", names=here_alone)
        began = time.monotonic()
        output, ray = self.output, self.ray
        folder = Folder(output)
        sources = texts_among(input_sources(self.input), self.input, [output])
        if not must_run(folder, resume=self.mode.resume, force=self.mode.force):
            print(f"{output} is whole already")
            return
        for source in sources:
            if os.path.isfile(source) and not (source.endswith(".parquet") or ray.skip_bad):
                for _ in islice(read_sentences(source), CHECKED):
                    pass
        # Workers may have a GPU where this process has none.
        encoder = self._encoder(device="cpu", dtype=ray.dtype or "float32")
        settings = {**self._settings(encoder), "--dtype": encoder.dtype, "--column": ray.column}
        job = EmbedJob(
            encoder=encoder,
            # Ray shows a worker its own GPU alone, as the first.
            device=self.bilm.device.partition(":")[0],
            skip_bad=ray.skip_bad,
            reading=Reading(os.getcwd(), column=ray.column, checked=not ray.skip_bad),
            sink=ParquetSink(
                folder,
                layers=encoder.num_layers,
                dim=encoder.bilm.options.output_dim,
                dtype=encoder.dtype,
                about={"settings": settings, "layers": self.layers},
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

    def _encoder(self, *, device: str | None = None, dtype: str = "float32") -> BatchEncoder:
        bilm = self.bilm.read(device=device)
        check_layers(self.layers, bilm.num_layers, asked="--layers")
        return BatchEncoder(
            bilm=bilm,
            start=read_start(self.initial_state, bilm),
            layers=self.layers,
            pool=self.pool,
            stateful=self.stateful,
            batch_tokens=self.batch_tokens,
            dtype=dtype,
        )

    def _settings(self, encoder: BatchEncoder) -> Settings:
        return {
            "the biLM": encoder.bilm.digest(),
            "the initial state": encoder.start.digest(),
            "--layers": self.layers,
            "--precision": self.bilm.precision,
            "--device": self.bilm.device.partition(":")[0],
        }


@dataclass(frozen=True, kw_only=True)
class Predict(Verb):
    name = "predict"
    help = "Predictions of an archive, to JSON Lines."
    description = """Reads JSON Lines or Parquet, a row an object: a file, folder, pattern or URL, or - for
        stdin. Writes what `allennlp predict` writes, line for line. OUT appears when it is whole; at a line
        that cannot be predicted it appears with the results before that line, and --resume goes on once the
        line is mended. Until OUT is whole the work is in OUT.partial. With --engine ray, IN and OUT may be at
        s3:// or gs://."""

    archive: Input = archive_argument()
    input: Input = positional("IN", "what to predict, an object a line")
    output: str = positional("OUT", "JSON Lines to write")
    batch_size: Positive = option("lines at once", 1)
    device: Gpu = device_option()
    predictor: str | None = option("the name of a predictor, instead of the task's")
    predictor_args: str = option("its parameters, as JSON", "")
    overrides: str = option("overrides of the archive's config, as JSON", "")
    mode: RunArguments
    ray: RayArguments = titled("with --engine ray")

    def run(self) -> None:
        engine = engine_of(self.mode, self.ray, self.output)
        here = isinstance(engine, Here)
        predictor_args = predictor_arguments(self.predictor_args)
        source, output = self.input, self.output
        if output.endswith(".parquet"):
            raise ConfigurationError(
                f"{output}: found the name of a Parquet file, expected one of JSON Lines"
            )
        base, piped = os.getcwd(), here and is_piped(source)
        if not piped:
            files = list(map(str, input_files(source))) if here else input_sources(source)
            sources = texts_among(files, source, [output, f"{output}.partial"])
        with run_folder(output, self.mode) as folder:
            if folder is None:
                return
            if piped:
                base, sources = str(folder.path), [copy_piped(source, folder.path).name]
            # Every worker gets the file.
            archive = (local_archive if here else packed_archive)(self.archive)
            settings: Settings = {
                "the archive": _digest(archive),
                "--batch-size": self.batch_size,
                "--predictor": self.predictor,
                "--predictor-args": self.predictor_args,
                "--overrides": self.overrides,
            }
            job = PredictJob(
                archive=self.archive if here else archive.read_bytes(),
                overrides=self.overrides,
                predictor=self.predictor,
                predictor_args=predictor_args,
                batch_size=self.batch_size,
                cuda_device=self.device,
                named=not piped,
                reading=Reading(base, objects=True, multiple=self.batch_size, checked=False),
                sink=JsonLinesSink(folder, output),
            )
            size = self.ray.shard_bytes
            run = run_job(job, engine, name="predict", sources=sources, settings=settings, shard_bytes=size)
        shards = "" if here else f", of {len(run.shards):,} shards"
        print(f"{output}: {run.total('sentences'):,} lines{shards}")


def _digest(archive: Path) -> str:
    digest = blake2b(digest_size=16)
    if archive.is_dir():
        for path in sorted(archive.iterdir()):
            digest.update(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    else:
        digest.update(archive.read_bytes())
    return digest.hexdigest()
