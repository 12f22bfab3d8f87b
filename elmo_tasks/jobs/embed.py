"""
The vectors of a corpus on Ray, to a folder of Parquet files: a row a sentence, a file a shard.

| column | type | |
| --- | --- | --- |
| `source` | string | the file that the sentence comes from |
| `line` | int64 | its line there, from 1; of Parquet, its row |
| `tokens` | list of strings | |
| `layers` | list of float32 or float16 | the vectors, row-major |
| `shape` | 3 of int32 | theirs: (layers, tokens, dim); one layer with `--layers top` and `average` |
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet as pq

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.files import prepare_on
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import BiLmOptions, LstmState
from elmo_tasks.embedding.corpus import MAX_TOKENS, NumberedSentence, batches_by_length, padded_ids, windows
from elmo_tasks.embedding.vector_file import NOT_FINITE, chosen_layers, first_not_finite
from elmo_tasks.jobs.pool import Outcome, cluster, outcomes
from elmo_tasks.jobs.runs import Run, RunRequest, open_run, write_note
from elmo_tasks.jobs.shards import Content, Reading, Shard, ShardReader
from elmo_tasks.jobs.storage import Folder

WINDOW_LINES = 4096
WINDOW_TOKENS = 1 << 13
"""A window is sorted by length, and written as one row group; it ends when either number is reached."""
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16}


@dataclass(frozen=True, kw_only=True)
class EmbedJob:
    """What is asked for. It is the same for all workers, and pickled with its arrays beside it."""

    options: BiLmOptions
    precision: str
    weights: dict[str, np.ndarray]
    start: tuple[np.ndarray, np.ndarray]
    """The state that a sentence starts from, see `LstmState`, of a batch of one."""
    device: str
    layers: str
    dtype: str
    batch_tokens: int
    folder: Folder
    reading: Reading
    skip_bad: bool

    @property
    def nbytes(self) -> int:
        return sum(weight.nbytes for weight in self.weights.values())


def embed_job(bilm: FrozenBiLm, start: LstmState, **others: Any) -> EmbedJob:
    """Takes the weights of `bilm`, which is on the CPU."""
    hidden, cell = (part.numpy() for part in start)
    return EmbedJob(
        options=bilm.options,
        precision=bilm.precision,
        weights={name: weight.numpy() for name, weight in bilm.weights().items()},
        start=(hidden, cell),
        **others,
    )


def embed(job: EmbedJob, request: RunRequest) -> Run | None:
    """
    Writes the folder; `None` if it is whole already.

    # Raises
    `ElmoError`: see `open_run`, `outcomes` and `EmbedShard`. `OSError`.
    """
    with cluster(request.engine, shared_bytes=job.nbytes) as workers:
        run = open_run(job.folder, request, reading=job.reading, workers=workers)
        if run is None:
            return None
        results = outcomes(EmbedShard, job, run.left(), workers=workers, gpus=int(job.device != "cpu"))
        for outcome in run.progress(results, "embed"):
            if "error" in outcome:
                raise ElmoError(outcome["error"])
    run.finish(
        {
            "settings": request.settings,
            "columns": {field.name: str(field.type) for field in _schema(job.dtype)},
            "layers": job.layers,
            "dim": job.options.output_dim,
            **{count: run.total(count) for count in ("sentences", "tokens", "rejected")},
        }
    )
    return run


class EmbedShard:
    """
    Does the shards of one worker.

    # Raises
    `ElmoError`, with source and line: see `tokens_of` and `ShardReader.lines`; vectors that are not finite.
    `ElmoError`: a processor without products of this precision. `OSError`.
    """

    def __init__(self, job: EmbedJob) -> None:
        self._job = job
        self._reader = ShardReader(job.reading)
        # Copies, since PyTorch knows no arrays that cannot be written
        weights = {name: torch.from_numpy(weight.copy()) for name, weight in job.weights.items()}
        bilm = FrozenBiLm(options=job.options, precision=job.precision, weights=weights)
        # Of all GPUs, Ray shows a worker its own, as the first.
        device = "cuda" if job.device.startswith("cuda") else job.device
        self._bilm = prepare_on(bilm, device, asked="--device")
        self._start = LstmState(*(torch.from_numpy(part.copy()).to(device) for part in job.start))
        self._schema = _schema(job.dtype)

    def __call__(self, shard: Shard) -> Outcome:
        rejects: list[dict[str, Any]] = []
        sentences = tokens = 0
        numbered = self._sentences(shard, rejects)
        with (
            self._job.folder.writing(f"{shard.name}.parquet") as file,
            pq.ParquetWriter(
                file, self._schema, compression="none", use_dictionary=["source"], write_statistics=["line"]
            ) as writer,
        ):
            for window in windows(numbered, sentences=WINDOW_LINES, tokens=WINDOW_TOKENS):
                writer.write_batch(self._rows(shard.source, window))
                sentences += len(window)
                tokens += sum(len(sentence.words) for sentence in window)
        return write_note(self._job.folder, shard, {"sentences": sentences, "tokens": tokens}, rejects)

    def _sentences(self, shard: Shard, rejects: list[dict[str, Any]]) -> Iterator[NumberedSentence]:
        for line, content in enumerate(self._reader.lines(shard), start=shard.line):
            try:
                yield NumberedSentence(line, tokens_of(content))
            except ValueError as error:
                if not self._job.skip_bad:
                    raise ElmoError(f"{shard.source}, line {line}: {error}") from error
                rejects.append(
                    {"source": shard.source, "line": line, "reason": str(error), "content": _shown(content)}
                )

    def _rows(self, source: str, window: list[NumberedSentence]) -> pa.RecordBatch:
        """*Shape:* a row a sentence; the values of all of them stand one behind the other."""
        layers = self._bilm.num_layers if self._job.layers == "all" else 1
        dim = self._job.options.output_dim
        lengths = np.array([len(sentence.words) for sentence in window])
        ends = np.cumsum(lengths * layers * dim)
        values: np.ndarray = np.empty(int(ends[-1]), dtype=DTYPES[self._job.dtype])
        end_of = {sentence.number: end for sentence, end in zip(window, ends, strict=True)}
        for batch in batches_by_length(window, self._job.batch_tokens):
            vectors = self._vectors(source, batch)
            for row, (line, words) in enumerate(batch):
                place = values[end_of[line] - layers * len(words) * dim : end_of[line]]
                place.reshape(layers, len(words), dim)[:] = vectors[:, row, : len(words)]
        shapes = np.stack([np.full_like(lengths, layers), lengths, np.full_like(lengths, dim)], axis=1)
        return pa.record_batch(
            [
                pa.array([source] * len(window)),
                pa.array([sentence.number for sentence in window]),
                pa.array([sentence.words for sentence in window], self._schema.field("tokens").type),
                pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), pa.array(values)),
                pa.FixedSizeListArray.from_arrays(pa.array(shapes.ravel(), pa.int32()), 3),
            ],
            schema=self._schema,
        )

    def _vectors(self, source: str, batch: list[NumberedSentence]) -> np.ndarray:
        """*Shape:* `(layers, sentences, longest, dim)`."""
        try:
            layers = self._bilm.encode(padded_ids(batch, self._bilm), self._start)
        except torch.OutOfMemoryError as error:
            found = f"{len(batch)} sentences of up to {len(batch[0].words):,} tokens"
            raise ElmoError.at(
                source, batch[0].number, found=found, expected="what fits the device"
            ) from error
        if (row := first_not_finite(layers)) is not None:
            raise ElmoError(f"{source}, line {batch[row].number}: {NOT_FINITE}")
        chosen = chosen_layers(layers, self._job.layers)
        if self._job.dtype == "float16":
            chosen = chosen.half()
            if (row := first_not_finite(chosen)) is not None:
                raise ElmoError.at(
                    source,
                    batch[row].number,
                    found="a value above 65,504, which float16 cannot hold",
                    expected="--dtype float32",
                )
        return chosen.cpu().numpy()


def tokens_of(content: Content) -> list[str]:
    """
    The tokens of a line in bytes, of a text, or of a list of tokens.

    # Raises
    `ValueError`, with what was found and expected: not UTF-8, too many tokens, or none of these.
    """
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"found the byte 0x{content[error.start]:02x} at offset {error.start} of it, expected UTF-8"
            ) from error
    tokens = content.split() if isinstance(content, str) else content
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise ValueError(f"found {_shown(content)[:60]}, expected a text, or a list of tokens")
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"found {len(tokens):,} tokens, expected a sentence of {MAX_TOKENS:,} at most")
    return tokens


def _shown(content: Content) -> str:
    return content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else repr(content)


def _schema(dtype: str) -> pa.Schema:
    return pa.schema(
        [
            ("source", pa.string()),
            ("line", pa.int64()),
            ("tokens", pa.list_(pa.string())),
            ("layers", pa.list_(pa.from_numpy_dtype(DTYPES[dtype]))),
            ("shape", pa.list_(pa.int32(), 3)),
        ]
    )
