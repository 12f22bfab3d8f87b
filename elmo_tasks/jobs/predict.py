"""Predictions of an archive on Ray: the lines that `allennlp predict` writes, in their order."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import lazy_groups_of
from allennlp.predictors import Predictor

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.compat.archives import open_archive
from elmo_tasks.jobs.pool import Outcome, cluster, outcomes
from elmo_tasks.jobs.runs import Run, RunRequest, open_run, write_note
from elmo_tasks.jobs.shards import Content, Reading, Shard, ShardReader
from elmo_tasks.jobs.storage import Folder, split_place
from elmo_tasks.predictors.command import load_lines, predicted_lines, predictor_of


@dataclass(frozen=True, kw_only=True)
class PredictJob:
    """What is asked for; the same for all workers."""

    archive: bytes
    """A `model.tar.gz`."""
    overrides: str
    predictor: str | None
    predictor_args: dict[str, Any]
    batch_size: int
    cuda: bool
    folder: Folder
    """Where the parts are, until all of them are."""
    reading: Reading


def predict(job: PredictJob, request: RunRequest, output: str) -> Run:
    """
    Writes `output`. As of `allennlp predict`, an input with an error leaves the results before it.

    # Parameters

    request : its source is JSON Lines or Parquet.
    output : a path, or behind `s3://` and the like.

    # Raises
    `ElmoError`: the first error, with the line; and see `open_run` and `PredictShard`. `OSError`.
    """
    with cluster(request.engine, shared_bytes=len(job.archive)) as workers:
        run = open_run(job.folder, request, reading=job.reading, workers=workers)
        assert run is not None, "only a manifest says that a run is whole, and there is none"
        results = outcomes(PredictShard, job, run.left(), workers=workers, gpus=int(job.cuda))
        first_error: Outcome | None = None
        for outcome in run.progress(results, "predict"):
            if "error" in outcome and (first_error is None or outcome["number"] < first_error["number"]):
                first_error = outcome
            if first_error is not None and all(n in run.done for n in range(first_error["number"])):
                break
    last = len(run.shards) if first_error is None else first_error["number"] + 1
    parts = [part_name(shard) for shard in run.shards[:last]]
    _put_together(job.folder, parts, output)
    if first_error is not None:
        raise ElmoError(first_error["error"])
    job.folder.remove_itself()
    return run


def part_name(shard: Shard) -> str:
    return f"{shard.name}.jsonl"


def _put_together(folder: Folder, parts: list[str], output: str) -> None:
    there = folder.names()
    target, name = split_place(output)
    with target.writing(name) as file:
        for part in parts:
            # A worker that cannot even start leaves no part.
            if part in there:
                file.write(folder.read(part))


class PredictShard:
    """
    Does the shards of one worker.

    # Raises
    `ElmoError`: the archive carries a state from batch to batch, so that its results depend on all
    lines before; and see `open_archive`.
    """

    def __init__(self, job: PredictJob) -> None:
        self._job = job
        self._reader = ShardReader(job.reading)
        try:
            self._predictor = _predictor(job)
        except ConfigurationError as error:
            raise ElmoError(str(error)) from error
        if any(getattr(module, "stateful", False) is True for module in self._predictor._model.modules()):
            raise ElmoError(
                "the model carries a state from batch to batch (stateful: true), so that a result depends on "
                "all lines before it; --engine ray needs one that does not"
            )

    def __call__(self, shard: Shard) -> Outcome:
        self._predictor.lines_read = shard.before
        inputs = load_lines(self._predictor, map(_as_line, self._reader.lines(shard)), shard.source)
        written = 0
        with self._job.folder.writing(part_name(shard)) as file:
            try:
                for batch in lazy_groups_of(inputs, self._job.batch_size):
                    for result in predicted_lines(self._predictor, batch):
                        file.write(result.encode("utf-8"))
                        written += 1
            except (ConfigurationError, ElmoError) as error:
                return {"error": str(error)}
        return write_note(self._job.folder, shard, {"sentences": written}, [])


def _predictor(job: PredictJob) -> Predictor:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.tar.gz")
        path.write_bytes(job.archive)
        archive = open_archive(path, 0 if job.cuda else -1, job.overrides)
    return predictor_of(archive, job.predictor, "validation", job.predictor_args)


def _as_line(content: Content) -> bytes:
    """
    A line, or the fields that a row of Parquet has, as one: each row has every column, and null in those that
    are not for it. A column that the predictor does not read may hold anything, as times, or NaN.
    """
    if isinstance(content, bytes):
        return content
    present = {name: value for name, value in content.items() if value is not None}
    fields = json.loads(json.dumps(present, default=_plain), parse_constant=lambda constant: None)
    return json.dumps(fields).encode()


def _plain(value: Any) -> str | None:
    """Bytes are text, as some programs write it; those that are not UTF-8 are null."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None
