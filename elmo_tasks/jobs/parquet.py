"""
The vectors of a text in a folder of Parquet files: a row a sentence, a file a shard. It needs pyarrow.

| column | type | |
| --- | --- | --- |
| `source` | string | the file that the sentence comes from |
| `line` | int64 | its line there, from 1; in Parquet, its row |
| `tokens` | list of strings | |
| `layers` | list of float32 or float16 | the vectors, row-major |
| `shape` | 3 of int32 | their shape: (layers, tokens, dim); one layer unless `--layers all` |
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

from elmo_tasks.embedding.batches import NumberedSentence
from elmo_tasks.jobs.places import Folder
from elmo_tasks.jobs.runs import MANIFEST, VERSION, Run, read_note, write_json
from elmo_tasks.jobs.shards import Shard
from elmo_tasks.jobs.sinks import Batches, Sink

REJECTED = "_rejected.jsonl"
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16}


class ParquetSink(Sink):
    """
    A folder of Parquet files. It is complete when it has a manifest.

    # Parameters

    layers : the layers of a vector.
    dtype : one of `DTYPES`.
    about : what the manifest says of the run: its settings, for example.
    """

    window_tokens = 1 << 13
    """A window is a row group."""

    def __init__(self, folder: Folder, *, layers: int, dim: int, dtype: str, about: dict[str, Any]) -> None:
        super().__init__(folder)
        self._layers = layers
        self._dim = dim
        self._dtype = DTYPES[dtype]
        self._about = about

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema(
            [
                ("source", pa.string()),
                ("line", pa.int64()),
                ("tokens", pa.list_(pa.string())),
                ("layers", pa.list_(pa.from_numpy_dtype(self._dtype))),
                ("shape", pa.list_(pa.int32(), 3)),
            ]
        )

    @contextmanager
    def part(self, shard: Shard) -> Iterator[Callable[[list[NumberedSentence], Batches], None]]:
        schema = self._schema
        with (
            self.folder.writing(f"{shard.name}.parquet") as file,
            pq.ParquetWriter(
                file, schema, compression="none", use_dictionary=["source"], write_statistics=["line"]
            ) as writer,
        ):

            def write(window: list[NumberedSentence], batches: Batches) -> None:
                writer.write_batch(self._rows(shard.source, window, batches, schema))

            yield write

    def _rows(
        self, source: str, window: list[NumberedSentence], batches: Batches, schema: pa.Schema
    ) -> pa.RecordBatch:
        layers, dim = self._layers, self._dim
        lengths = np.array([len(sentence.words) for sentence in window])
        # The values of all rows are in one array, one row after the other.
        ends = np.cumsum(lengths * layers * dim)
        values: np.ndarray = np.empty(int(ends[-1]), dtype=self._dtype)
        end_of = {sentence.number: end for sentence, end in zip(window, ends, strict=True)}
        for batch, vectors in batches:
            for row, (line, words) in enumerate(batch):
                place = values[end_of[line] - layers * len(words) * dim : end_of[line]]
                place.reshape(layers, len(words), dim)[:] = vectors[:, row, : len(words)]
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
        """Puts the rejected lines of all shards together, writes the manifest, and removes the notes."""
        if run.total("rejected"):
            with self.folder.writing(REJECTED) as file:
                for shard in run.shards:
                    for line in read_note(self.folder, shard.number)["rejects"]:
                        file.write(json.dumps(line).encode() + b"\n")
        content = {
            "version": VERSION,
            **self._about,
            "columns": {field.name: str(field.type) for field in self._schema},
            "dim": self._dim,
            **{count: run.total(count) for count in ("sentences", "tokens", "rejected")},
            "parts": [shard._asdict() | run.done[shard.number] for shard in run.shards],
        }
        write_json(self.folder, MANIFEST, content)
        # The notes, and the files that workers which were killed had begun
        self.folder.remove(name for name in self.folder.names() if name.startswith(("_part-", "__")))
