"""The predictions of an archive, shard by shard: the lines that `allennlp predict` writes."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.archives import open_archive
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs.engines import Job
from elmo_tasks.jobs.runs import Content, Outcome, Shard
from elmo_tasks.pipeline.command import predictor_of
from elmo_tasks.pipeline.predictor import InputRecord, TaskPredictor, is_stateful
from elmo_tasks.pipeline.stream import json_records, predict


@dataclass(kw_only=True)
class PredictJob(Job):
    """
    The predictions that are asked for; `archive` is a name, or the content of a `model.tar.gz`. An input with
    an error leaves the results before it.
    """

    archive: str | bytes
    overrides: str = ""
    predictor: str | None = None
    predictor_args: dict[str, Any]
    min_probability: float = 0.0
    batch_size: int | None = None
    cuda_device: int = -1

    @property
    def nbytes(self) -> int:
        return len(self.archive)

    @property
    def on_gpu(self) -> bool:
        return self.cuda_device >= 0

    def open(self) -> None:
        try:
            self._predictor = open_job_predictor(self)
        except ConfigurationError as error:
            raise ElmoError(str(error)) from error
        self._stateful = is_stateful(self._predictor._model)
        self._next = 0
        if isinstance(self.archive, bytes):
            self._check_order(None)

    def __call__(self, shard: Shard, contents: list[Content]) -> Outcome:
        self._check_order(shard.number)
        records = json_records(
            self._predictor,
            map(_as_line, contents),
            shard.source,
            before=shard.line - 1,
        )
        with self.sink.part(shard) as write:

            def write_line(record: InputRecord, result: JsonDict) -> None:
                write(self._predictor.dump_line(result).encode("utf-8"))

            try:
                written = predict(records, self._predictor, write_line, self.batch_size)
            except (ConfigurationError, ElmoError) as error:
                # The form of the input is told for the first line of the whole run.
                notes = [] if shard.number else getattr(error, "__notes__", [])
                return {"number": shard.number, "error": "; ".join([str(error), *notes])}
        return self.sink.done(shard, {"sentences": written})

    def _check_order(self, number: int | None) -> None:
        """Refuses a stateful model on Ray (`None`), and in a run that is resumed."""
        if self._stateful and number != self._next:
            raise ElmoError(
                "the model carries a state from batch to batch (stateful: true), so that a result depends on "
                "all lines before it; neither --engine ray nor --resume is for such a model"
            )
        self._next += 1


def open_job_predictor(job: PredictJob) -> TaskPredictor:
    if isinstance(job.archive, str):
        archive = open_archive(job.archive, job.cuda_device, job.overrides)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.tar.gz")
            path.write_bytes(job.archive)
            archive = open_archive(path, 0 if job.on_gpu else -1, job.overrides)
    return predictor_of(archive, job.predictor, "validation", job.predictor_args, job.min_probability)


def _as_line(content: Content) -> bytes:
    """
    Returns a line, or the fields of a row of Parquet as one; raises the error of reading. A row has every
    column, and null in those that are not for it. A column that the predictor does not read may hold
    anything, such as times or NaN.
    """
    if isinstance(content, Exception):
        raise content
    if isinstance(content, bytes):
        return content
    present = {name: value for name, value in content.items() if value is not None}
    fields = json.loads(json.dumps(present, default=_text_of_bytes), parse_constant=lambda constant: None)
    return json.dumps(fields).encode()


def _text_of_bytes(value: Any) -> str | None:
    """Decodes bytes, as which some programs write text; bytes that are not UTF-8 become null."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None
