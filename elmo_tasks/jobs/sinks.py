"""
The outputs of runs: an HDF5 file of vectors, and a file of JSON Lines. `parquet` has a third.

Each writes the content of a shard, notes that the shard is done, and makes the output when all shards are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tasks.common.files import put_in_place
from elmo_tasks.embedding.batches import WINDOW_TOKENS, NumberedSentence
from elmo_tasks.embedding.vector_file import VECTORS, VectorFile
from elmo_tasks.jobs.places import Folder
from elmo_tasks.jobs.runs import PLAN, Outcome, Run, write_note
from elmo_tasks.jobs.shards import Shard

Batches = Iterable[tuple[list[NumberedSentence], np.ndarray]]
"""Batches of sentences with their vectors, see `BatchEncoder.batches`."""


class Sink(ABC):
    """
    The output of a run.

    # Parameters

    folder : the folder in which the run works.
    """

    window_tokens: int = WINDOW_TOKENS
    """The tokens of a window of sentences, in which they are sorted by length."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def open(self) -> AbstractContextManager[object]:
        """Returns the context in which shards are done. It ends when all is on the disk."""
        return nullcontext()

    @abstractmethod
    def part(self, shard: Shard) -> AbstractContextManager[Callable[..., Any]]:
        """Returns a context in which the content of a shard is written by a function, in pieces."""

    def done(self, outcome: Outcome, **note: Any) -> Outcome:
        """Notes that a shard is done, see `write_note`, and returns its outcome."""
        write_note(self.folder, outcome, **note)
        return outcome

    @abstractmethod
    def finish(self, run: Run) -> None:
        """Makes the output of a run whose shards are done."""

    def end_at(self, run: Run, number: int) -> None:  # noqa: B027
        """
        Is called in the place of `finish` if the input in shard `number` has an error, and those before are
        done.
        """


class Hdf5Sink(Sink):
    """An HDF5 file that `lay_out` has made in the folder. Vectors are written in place."""

    def __init__(self, folder: Folder, output: str) -> None:
        super().__init__(folder)
        self._output = Path(output)

    @contextmanager
    def open(self) -> Iterator[None]:
        with VectorFile.open(self.folder.path) as self._file:
            yield

    def part(self, shard: Shard) -> AbstractContextManager[Callable[[list[NumberedSentence], Batches], None]]:
        return nullcontext(self._write)

    def _write(self, window: list[NumberedSentence], batches: Batches) -> None:
        for batch, vectors in batches:
            self._file.write(batch, vectors)

    def done(self, outcome: Outcome, **note: Any) -> Outcome:
        """Returns at once: the next shard is computed while this one is written."""
        self._file.sync(partial(super().done, outcome, **note))
        return outcome

    def finish(self, run: Run) -> None:
        vectors = self.folder.path / VECTORS
        # A run that was killed at its end may have moved the file already.
        if vectors.exists() or not self._output.exists():
            put_in_place(vectors, self._output)
        self.folder.remove([PLAN])


class JsonLinesSink(Sink):
    """A file of lines, written in parts, which are put together in the end."""

    def __init__(self, folder: Folder, output: str) -> None:
        super().__init__(folder)
        self._output = output

    @contextmanager
    def part(self, shard: Shard) -> Iterator[Callable[..., Any]]:
        with self.folder.writing(f"{shard.name}.jsonl") as file:
            yield file.write

    def finish(self, run: Run) -> None:
        self._put_together(run.shards)
        self.folder.remove_itself()

    def end_at(self, run: Run, number: int) -> None:
        """Leaves the results before the error in the output."""
        self._put_together(run.shards[: number + 1])

    def _put_together(self, shards: list[Shard]) -> None:
        parts = self.folder.names()
        with self.folder.writing("result", to=self._output) as file:
            for shard in shards:
                # A worker that could not start has left no part.
                if (name := f"{shard.name}.jsonl") in parts:
                    file.write(self.folder.read(name))
