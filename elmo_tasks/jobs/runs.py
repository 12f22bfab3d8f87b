"""
A run over shards, in a folder: a plan first, then for each shard its part and a note that it is done. So a
run that was stopped goes on with the shards that have no note.
"""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.hdf5 import Settings, check_same
from elmo_tasks.jobs.pool import Engine, Outcome
from elmo_tasks.jobs.shards import Reading, Shard, make_shards, shard_bytes
from elmo_tasks.jobs.storage import Folder, input_sources

PLAN = "_plan.json"
MANIFEST = "_manifest.json"
"""Of a run that is whole. Readers of a folder of Parquet files pass over names that begin with `_`."""
REJECTED = "_rejected.jsonl"
VERSION = 1
"""Of the files of a run."""
_NOTE = re.compile(r"_part-(\d{6,})\.json")
_OURS = re.compile(r"__?(part|plan|manifest|rejected)[-.].*|part-\d{6,}\.(parquet|jsonl)")


class RunRequest(NamedTuple):
    """What the user says of a run, whatever its shards are for."""

    source: str
    """Of the text, see `input_sources`; what the command writes is left out."""
    settings: Settings
    """What a run that is resumed must have in common with this one."""
    engine: Engine
    resume: bool
    """Go on with a run that was stopped, or begin."""
    force: bool
    """Remove what an older run left."""
    output: str | None = None
    """The file that is written in the end, where that is not the run's folder."""

    def sources(self, folder: Folder) -> list[str]:
        """
        The files to read.

        # Raises
        `ElmoError`: there is none but what the command writes. See `input_sources`, too.
        """
        written = [folder]
        if self.output is not None:
            written.append(Folder(self.output))
        sources = [
            source for source in input_sources(self.source) if not any(each.holds(source) for each in written)
        ]
        if not sources:
            raise ElmoError(f"{self.source} is what this command writes, expected another output")
        return sources


@dataclass(kw_only=True)
class Run:
    """See `open_run`."""

    folder: Folder
    shards: list[Shard]
    done: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes of the shards that are done, by their numbers."""

    def left(self) -> list[Shard]:
        return [shard for shard in self.shards if shard.number not in self.done]

    def progress(self, outcomes: Generator[Outcome, None, None], name: str) -> Iterator[Outcome]:
        """
        The outcomes as they come, with a bar that shows the bytes that are done, and the time left. They are
        closed with it: what is left of the work must end before Ray does.
        """
        sizes = [shard.size for shard in self.shards]
        initial = sum(sizes[number] for number in self.done)
        with (
            closing(outcomes),
            progress(work=name, unit="bytes", total=sum(sizes), initial=initial, unit_scale=True) as bar,
        ):
            try:
                for outcome in outcomes:
                    if "error" not in outcome:
                        self.done[outcome["number"]] = outcome
                        bar.update(sizes[outcome["number"]])
                    yield outcome
            except BaseException as error:
                error.add_note(
                    f"{len(self.done):,} of {len(self.shards):,} shards are done, "
                    "and the same command with --resume goes on from there"
                )
                raise

    def total(self, count: str) -> int:
        return sum(outcome[count] for outcome in self.done.values())

    def finish(self, about: dict[str, Any]) -> None:
        """Puts the rejected lines of all parts together, and writes the manifest: the run is whole."""
        if self.total("rejected"):
            with self.folder.writing(REJECTED) as file:
                for shard in self.shards:
                    for line in json.loads(self.folder.read(note_name(shard)))["rejects"]:
                        file.write(json.dumps(line).encode() + b"\n")
        parts = [shard._asdict() | self.done[shard.number] for shard in self.shards]
        _write(self.folder, MANIFEST, {"version": VERSION, **about, "parts": parts})
        # The notes, and what workers that were killed had begun
        self.folder.remove(name for name in self.folder.names() if name.startswith(("_part-", "__")))


def open_run(folder: Folder, request: RunRequest, *, reading: Reading, workers: int) -> Run | None:
    """
    A run in `folder`: a new one, or what is left of one that was stopped; `None` if it is whole already.

    # Raises
    `ElmoError`: there is something in the folder, and nothing says what to do with it; or the run
    in it had other settings, or another text. `ElmoError`: see `make_shards`.
    """
    names = folder.names()
    sources = request.sources(folder)
    settings = request.settings | {"the version of this command": VERSION}
    if request.resume and PLAN in names:
        plan = json.loads(folder.read(PLAN))
        check_same(folder.place, plan["settings"], settings)
        shards = make_shards(sources, plan["shard_bytes"], reading)
        _check_text(folder, [Shard(*shard) for shard in plan["shards"]], shards)
        if MANIFEST in names:
            return None
        notes = [note for note in names if _NOTE.fullmatch(note)]
        done = [json.loads(folder.read(note)) for note in notes]
        for note in done:
            del note["rejects"]  # `finish` reads them again
        return Run(folder=folder, shards=shards, done={note["number"]: note for note in done})
    _make_room(folder, names, force=request.force)
    size = request.engine.shard_bytes or shard_bytes(sources, workers)
    shards = make_shards(sources, size, reading)
    folder.create()
    _write(folder, PLAN, {"settings": settings, "shard_bytes": size, "shards": shards})
    return Run(folder=folder, shards=shards)


def note_name(shard: Shard) -> str:
    return f"_{shard.name}.json"


def write_note(folder: Folder, shard: Shard, outcome: Outcome, rejects: Sequence[dict[str, Any]]) -> Outcome:
    """The part of the shard is there, and all that a later run must know of it."""
    outcome = {"number": shard.number, **outcome, "rejected": len(rejects)}
    _write(folder, note_name(shard), outcome | {"rejects": rejects})
    return outcome


def _make_room(folder: Folder, names: set[str], *, force: bool) -> None:
    if foreign := sorted(name for name in names if not _OURS.fullmatch(name)):
        raise ElmoError(
            f"{folder.place} holds {foreign[0]}, which this command did not write; "
            "expected an empty folder, or none"
        )
    if MANIFEST in names and not force:
        raise ElmoError(f"{folder.place} exists; --force overwrites it")
    if names and not force:
        ways = "--resume goes on with it, --force starts anew" if PLAN in names else "--force starts anew"
        raise ElmoError(f"{folder.place} holds a run that was stopped; {ways}")
    # Whatever stops us, the folder is never taken for a whole one, nor its notes for those of a plan.
    first = [name for name in (MANIFEST, PLAN) if name in names]
    folder.remove(first)
    folder.remove(names.difference(first))


def _check_text(folder: Folder, before: list[Shard], now: list[Shard]) -> None:
    if before == now:
        return
    where = "another number of lines"
    for old, new in zip(before, now, strict=False):
        if old != new:
            where = f"{new.source}, behind line {new.line}"
            if old == new._replace(source=old.source):
                where = f"its name was {old.source}, is {new.source}"
            break
    raise ElmoError(f"{folder.place} cannot be resumed, the text differs: {where}; --force starts anew")


def _write(folder: Folder, name: str, content: dict[str, Any]) -> None:
    with folder.writing(name) as file:
        file.write(json.dumps(content).encode() + b"\n")
