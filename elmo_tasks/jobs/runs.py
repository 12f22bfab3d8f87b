"""
The plan of a run and its notes: how a run that was stopped is resumed, whatever it computes and wherever it
writes.

A run works in a folder: OUT itself if that is a folder of parts, else OUT.partial. `must_run` decides by the
files there whether there is something to do. `open_run` writes the plan, with the settings and the shards, or
compares the plan of a run that was stopped with its own. Each shard that is done leaves a note with its
counts, written when its content is on the disk. A run that is resumed does the shards that have no note.
"""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.jobs.places import MARK, Folder, exists
from elmo_tasks.jobs.shards import Reading, Shard, make_shards

PLAN = "_plan.json"
MANIFEST = "_manifest.json"
"""The mark of a complete folder of parts. Readers of such folders ignore names that begin with `_`."""
REPLACES = "_replaces"
"""
The mark of a run that replaces OUT and has no plan yet: a run that is resumed must not take OUT for its
result.
"""
FORMER = "checkpoint.npz"
"""The file by which versions up to 0.2 resumed an HDF5 file."""
NEEDED = (PLAN, REPLACES, FORMER)
"""The files that a later run needs; a folder without them may be removed."""
VERSION = 2
"""The version of these files, and of how an input is put into shards, windows and batches."""
_NOTE = re.compile(r"_part-(\d{6,})\.json")
_IN_FOLDER = re.compile(r"__?(part|plan|manifest|rejected)[-.].*|part-\d{6,}\.parquet")
_IN_PARTIAL = re.compile(
    r"__?(part|plan|replaces|result)([-.].*)?|part-\d{6,}\.jsonl|stdin|text|starts|keys|places"
    rf"|vectors\.hdf5|{re.escape(FORMER)}"
)
"""The names of a run's files in OUT, if it is a folder of parts, and in OUT.partial."""

Settings = dict[str, str | int | None]
"""The settings that a run must share with the one it resumes. The key of an argument is its name, `--...`."""
Outcome = dict[str, Any]
"""The result of a shard: its number and counts, or the `error` that ended it."""


def must_run(folder: Folder, output: str | None = None, *, resume: bool, force: bool) -> bool:
    """
    Returns whether there is something to do. If so, the folder holds the plan of the run that is to be
    resumed, or nothing that matters.

    # Parameters

    folder : the folder to work in.
    output : the file to write, if it is not the folder itself.

    # Raises
    `ElmoError`: there is an output, or a run that was stopped, and no option says what to do with it; or the
    folder holds other files.
    """
    names = folder.names() - {MARK}
    ours = _IN_FOLDER if output is None else _IN_PARTIAL
    if others := sorted(name for name in names if not ours.fullmatch(name)):
        raise ElmoError(
            f"{folder.place} holds {others[0]}, which this command did not write; "
            "expected an empty folder, or none"
        )
    complete = MANIFEST in names if output is None else exists(output)
    stopped = not names.isdisjoint((PLAN, REPLACES))
    if resume and stopped:
        return True
    if not force and FORMER in names:
        raise ElmoError(
            f"{folder.place} holds a run of a former version, which cannot be resumed; --force starts anew"
        )
    if resume and complete:
        return False
    if not force and complete and (output is None or not stopped):
        raise ElmoError(f"{output or folder.place} exists; --force overwrites it")
    if not force and (stopped or (output is None and names)):
        ways = "--resume goes on with it, --force starts anew" if stopped else "--force starts anew"
        raise ElmoError(f"{folder.place} holds a run that was stopped; {ways}")
    # A kill must not leave a manifest or a plan without the parts.
    folder.remove([MANIFEST, PLAN, *sorted(names - {MANIFEST, PLAN, REPLACES})])
    if output is not None and complete:
        folder.create()
        with folder.writing(REPLACES):
            pass
    return True


@dataclass(kw_only=True)
class Run:
    """A run that `open_run` has opened."""

    folder: Folder
    shards: list[Shard]
    done: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes of the shards that are done, by their numbers."""
    complete: bool = False
    """The output is complete."""
    _bar: Any = None

    def __post_init__(self) -> None:
        self._before = set(self.done)

    def left(self) -> list[Shard]:
        """Returns the shards that are not done."""
        return [shard for shard in self.shards if shard.number not in self.done]

    def total(self, count: str, *, new: bool = False) -> int:
        """Returns the sum of a count over all shards or, if `new`, over those that this process has done."""
        return sum(
            outcome[count] for number, outcome in self.done.items() if not (new and number in self._before)
        )

    def progress(self, outcomes: Generator[Outcome, None, None], name: str) -> Generator[Outcome, None, None]:
        """
        Yields the outcomes as they come, with a bar of the lines that are done, and closes them at the end:
        work that was begun must end before its engine does.
        """
        lines = [shard.lines for shard in self.shards]
        done = sum(lines[number] for number in self.done)
        with (
            closing(outcomes),
            progress(work=name, unit="lines", total=sum(lines), initial=done, unit_scale=True) as self._bar,
        ):
            for outcome in outcomes:
                if "error" not in outcome:
                    self.done[outcome["number"]] = outcome
                    done += lines[outcome["number"]]
                    self._bar.update(done - self._bar.n)
                yield outcome

    def advance(self, lines: int) -> None:
        """Moves the bar within a shard."""
        self._bar.update(lines)

    @contextmanager
    def telling_how_to_resume(self) -> Iterator[None]:
        """Adds to an exception that leaves the context how much is done, and how the run is resumed."""
        try:
            yield
        except BaseException as error:
            with suppress(OSError):
                names = self.folder.names()
                done = sum(shard.lines for shard in self.shards if note_name(shard.number) in names)
                error.add_note(
                    f"{done:,} of {sum(shard.lines for shard in self.shards):,} lines are done, and the same "
                    "command with --resume goes on from there"
                )
            raise


def open_run(
    folder: Folder,
    sources: Sequence[str],
    settings: Settings,
    *,
    reading: Reading,
    shard_bytes: int,
) -> Run:
    """
    Opens the run whose plan is in the folder or, without one, a new run.

    # Raises
    `ElmoError`: the run in the folder had other settings, or another input; see also `make_shards`.
    """
    settings = settings | {"the version of this command": VERSION}
    names = folder.names()
    if PLAN in names:
        plan = _read(folder, PLAN)
        _check_settings(folder, plan["settings"], settings)
        shards = make_shards(sources, plan["shard_bytes"], reading)
        _check_shards(folder, [Shard(*shard) for shard in plan["shards"]], shards)
        notes = [_read(folder, name) for name in names if _NOTE.fullmatch(name)]
        for note in notes:
            del note["rejects"], note["state"]
        done = {note["number"]: note for note in notes}
        return Run(folder=folder, shards=shards, done=done, complete=MANIFEST in names)
    shards = make_shards(sources, shard_bytes, reading)
    folder.create()
    write_json(folder, PLAN, {"settings": settings, "shard_bytes": shard_bytes, "shards": shards})
    folder.remove([REPLACES])
    return Run(folder=folder, shards=shards)


def note_name(number: int) -> str:
    return f"_part-{number:06}.json"


def write_note(folder: Folder, outcome: Outcome, *, rejects: Sequence[Any] = (), state: Any = None) -> None:
    """
    Notes that a shard is done and its content on the disk.

    # Parameters

    rejects : the lines of the shard that were left out.
    state : the state after the shard in which the next one starts, if there is one.
    """
    write_json(folder, note_name(outcome["number"]), outcome | {"rejects": rejects, "state": state})


def read_note(folder: Folder, number: int) -> Outcome:
    return _read(folder, note_name(number))


def write_json(folder: Folder, name: str, content: dict[str, Any]) -> None:
    with folder.writing(name) as file:
        file.write(json.dumps(content).encode() + b"\n")


def _read(folder: Folder, name: str) -> dict[str, Any]:
    try:
        return json.loads(folder.read(name))
    except ValueError as error:
        raise ElmoError(
            f"{folder.place}/{name}: found {error}, expected JSON; --force starts anew"
        ) from error


def _check_settings(folder: Folder, before: Settings, now: Settings) -> None:
    differences = [
        f"{key} (was {before.get(key)}, is {now.get(key)})" if key.startswith("--") else key
        for key in before | now
        if before.get(key) != now.get(key)
    ]
    if differences:
        raise ElmoError(
            f"{folder.place} cannot be resumed, this differs: {', '.join(differences)}; --force starts anew"
        )


def _check_shards(folder: Folder, before: list[Shard], now: list[Shard]) -> None:
    if before == now:
        return
    where = "another number of lines"
    for old, new in zip(before, now, strict=False):
        if old != new:
            where = f"{new.source}, after line {new.line}"
            if old == new._replace(source=old.source):
                where = f"its name was {old.source}, is {new.source}"
            break
    raise ElmoError(f"{folder.place} cannot be resumed, the text differs: {where}; --force starts anew")
