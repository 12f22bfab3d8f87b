"""
The outputs of runs: an HDF5 file of vectors, a file of JSON Lines, and a folder of Parquet files.

Each writes the content of a shard, notes that the shard is done, and makes the output when all shards are.
h5py and pyarrow are imported when HDF5 and Parquet are written.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from elmo_tasks.common.files import put_in_place
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.batches import WINDOW_TOKENS, NumberedSentence
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.jobs.locations import Folder
from elmo_tasks.jobs.runs import (
    MANIFEST,
    VERSION,
    Outcome,
    Run,
    Shard,
    note_name,
    read_json,
    write_json,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Sink(ABC):
    """The output of a run that works in `folder`: shards are written one by one, then assembled."""

    folder: Folder
    window_tokens: ClassVar[int] = WINDOW_TOKENS
    """The tokens of a window of sentences, in which they are sorted by length."""

    @abstractmethod
    def part(self, shard: Shard) -> AbstractContextManager[Callable[..., Any]]:
        """Returns a context in which the content of a shard is written by a function, in pieces."""

    def done(
        self,
        shard: Shard,
        counts: dict[str, int],
        *,
        rejects: Sequence[dict[str, Any]] = (),
        state: list[Any] | None = None,
    ) -> Outcome:
        """
        Notes that a shard is done, the `rejects` left out, and the `state` in which the next starts; returns
        the outcome.
        """
        outcome = {"number": shard.number, **counts}
        note = {"shard": shard, "outcome": outcome, "rejects": rejects, "state": state}
        write_json(self.folder, note_name(shard.number), note)
        return outcome

    @abstractmethod
    def finish(self, run: Run) -> None:
        """Makes the output of a run whose shards are done."""

    def end_at(self, run: Run, number: int) -> None:  # noqa: B027
        """Is called instead of `finish` if the input in the shard with this number has an error."""


@dataclass
class Hdf5Sink(Sink):
    """An HDF5 file, see `vector_file`. A part has the vectors of its lines, one after the other."""

    output: str
    text: Corpus
    """The lines that have the vectors."""
    shape: Callable[[int], tuple[int, ...]]
    """The shape of a line's dataset, by its number of tokens."""
    dtype: str
    with_index: bool

    @contextmanager
    def part(self, shard: Shard) -> Iterator[Callable[[list[NumberedSentence], list[np.ndarray]], None]]:
        with self.folder.writing(f"{shard.name}.vectors") as file:

            def write(window: list[NumberedSentence], vectors: list[np.ndarray]) -> None:
                for layers in vectors:
                    file.writelines(np.ascontiguousarray(layer).data for layer in layers)

            yield write

    def finish(self, run: Run) -> None:
        from elmo_tasks.embedding.vector_file import write_vectors

        path = self.folder.path / "_result.hdf5"
        path.unlink(missing_ok=True)
        vectors = progress(
            self._vectors(run.shards), work="writing", unit="lines", total=len(self.text), unit_scale=True
        )
        write_vectors(
            path, self.text, vectors, shape=self.shape, dtype=self.dtype, with_index=self.with_index
        )
        put_in_place(path, Path(self.output))

    def _vectors(self, shards: Sequence[Shard]) -> Iterator[np.ndarray]:
        lengths = (len(line.split()) for line in self.text)
        for shard in shards:
            with open(self.folder.path / f"{shard.name}.vectors", "rb") as file:
                for tokens in islice(lengths, shard.lines):
                    size = math.prod(self.shape(tokens))
                    content = file.read(size * np.dtype(self.dtype).itemsize)
                    yield np.frombuffer(content, self.dtype).reshape(1, size)


@dataclass
class JsonLinesSink(Sink):
    """A file of lines, written in parts, which are concatenated when all are done."""

    output: str

    @contextmanager
    def part(self, shard: Shard) -> Iterator[Callable[..., Any]]:
        with self.folder.writing(f"{shard.name}.jsonl") as file:
            yield file.write

    def finish(self, run: Run) -> None:
        self.end_at(run, len(run.shards))

    def end_at(self, run: Run, number: int) -> None:
        """Leaves the results before the error in the output."""
        parts = self.folder.names()
        with self.folder.writing("result", to=self.output) as file:
            for shard in run.shards[: number + 1]:
                # A worker that could not start has left no part.
                if (name := f"{shard.name}.jsonl") in parts:
                    file.write(self.folder.read(name))


REJECTED = "_rejected.jsonl"


@dataclass
class ParquetSink(Sink):
    """
    A folder of Parquet files: a row a sentence, a file a shard. It is complete when it has a manifest.

    | column | type | |
    | --- | --- | --- |
    | `source` | string | the file that the sentence comes from |
    | `line` | int64 | its line there, from 1; in Parquet, its row |
    | `tokens` | list of strings | |
    | `layers` | list of float32 or float16 | the vectors, row-major |
    | `shape` | 3 of int32 | their shape: (layers, tokens, dim); one layer unless `--layers all` |
    """

    layers: int
    dim: int
    dtype: str
    about: dict[str, Any]
    """What the manifest says of the run: its settings, for example."""
    window_tokens = 1 << 13

    @property
    def _schema(self) -> "pa.Schema":
        import pyarrow as pa

        return pa.schema(
            [
                ("source", pa.string()),
                ("line", pa.int64()),
                ("tokens", pa.list_(pa.string())),
                ("layers", pa.list_(pa.from_numpy_dtype(self.dtype))),
                ("shape", pa.list_(pa.int32(), 3)),
            ]
        )

    @contextmanager
    def part(self, shard: Shard) -> Iterator[Callable[[list[NumberedSentence], list[np.ndarray]], None]]:
        from pyarrow import parquet as pq

        schema = self._schema
        with (
            self.folder.writing(f"{shard.name}.parquet") as file,
            pq.ParquetWriter(
                file, schema, compression="none", use_dictionary=["source"], write_statistics=["line"]
            ) as writer,
        ):

            def write(window: list[NumberedSentence], vectors: list[np.ndarray]) -> None:
                writer.write_batch(self._rows(shard.source, window, vectors, schema))

            yield write

    def _rows(
        self, source: str, window: list[NumberedSentence], vectors: list[np.ndarray], schema: "pa.Schema"
    ) -> "pa.RecordBatch":
        import pyarrow as pa

        layers, dim = self.layers, self.dim
        lengths = np.array([len(sentence.words) for sentence in window])
        ends = np.cumsum(lengths * layers * dim)
        values = np.concatenate([layers.ravel() for layers in vectors])
        shapes = np.stack([np.full_like(lengths, layers), lengths, np.full_like(lengths, dim)], axis=1)
        return pa.record_batch(
            [
                pa.array([source] * len(window)),
                pa.array([sentence.number for sentence in window]),
                pa.array([sentence.words for sentence in window], schema.field("tokens").type),
                pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), pa.array(values)),
                pa.FixedSizeListArray.from_arrays(pa.array(shapes.ravel(), pa.int32()), 3),
            ],
            schema=schema,
        )

    def finish(self, run: Run) -> None:
        """Concatenates the rejected lines of all shards, and writes the manifest."""
        if run.total("rejected"):
            with self.folder.writing(REJECTED) as file:
                for shard in run.shards:
                    for line in read_json(self.folder, note_name(shard.number))["rejects"]:
                        file.write(json.dumps(line).encode() + b"\n")
        content = {
            "version": VERSION,
            **self.about,
            "columns": {field.name: str(field.type) for field in self._schema},
            "dim": self.dim,
            **{count: run.total(count) for count in ("sentences", "tokens", "rejected")},
            "parts": [shard._asdict() | run.done[shard.number] for shard in run.shards],
        }
        parts = {f"{shard.name}.parquet" for shard in run.shards}
        names = self.folder.names()
        # The parts of an input that was longer before
        self.folder.remove(name for name in names - parts if name.startswith("part-"))
        write_json(self.folder, MANIFEST, content)
        # The notes, and what workers that were killed had begun
        self.folder.remove(name for name in names if name.startswith(("_part-", "__")))
