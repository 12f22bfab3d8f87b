import json
import math
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

import pytest
from allennlp.predictors import Predictor

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.pipeline.command import predict_file
from tests.pipeline.archives import SIZES, predictor_of, write_archive

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")
from pyarrow import parquet as pq

from elmo_tasks.jobs import predict
from elmo_tasks.jobs.engines import LocalEngine, run_job
from elmo_tasks.jobs.locations import Folder
from elmo_tasks.jobs.runs import Reading
from elmo_tasks.jobs.sinks import JsonLinesSink


def job_of(folder: Path, archive: str | bytes = "", **reading) -> predict.PredictJob:
    """The job whose parts are in `folder`."""
    return predict.PredictJob(
        archive=archive,
        predictor_args={},
        batch_size=reading.get("multiple", 1),
        reading=Reading(".", objects=True, **reading),
        sink=JsonLinesSink(Folder(str(folder / "parts")), str(folder / "out")),
    )


def predicted(job: predict.PredictJob, source: Path, size: int) -> str:
    """Does the shards of `source` here, and returns the lines. The folder goes, as in `run_folder`."""
    run_job(job, LocalEngine(), name="predict", sources=[str(source)], settings={}, shard_bytes=size)
    job.sink.folder.remove_itself()
    return (job.sink.folder.path.parent / "out").read_text()


def lines_of_allennlp(predictor: Predictor, source: Path, folder: Path, *, batch_size: int = 1) -> str:
    """Returns the lines that `allennlp predict` writes."""
    predict_file(predictor, str(source), str(folder / "expected"), batch_size=batch_size)
    return (folder / "expected").read_text()


FIXTURES = {
    **{
        name: f"fixtures/{name}/predict.jsonl"
        for name in ("ner", "srl", "coref", "squad", "snli", "sst", "sentence")
    },
    **{name: f"fixtures/classification/{name}/predict.jsonl" for name in ("agnews", "mrpc")},
}


@pytest.mark.parametrize("config", SIZES)
def test_every_task(config, tmp_path, monkeypatch):
    """A predictor reads shards as it reads the whole file."""
    predictor = predictor_of(config)
    monkeypatch.setattr(predict, "open_job_predictor", lambda job: predictor)
    source = bundled(FIXTURES[config])
    expected = lines_of_allennlp(predictor, source, tmp_path, batch_size=2)
    job = job_of(tmp_path, multiple=2)
    assert predicted(job, source, 1) == expected
    objects = [json.loads(line) for line in source.read_text().splitlines() if line.strip()]
    columns = dict.fromkeys(name for one in objects for name in one)
    other = {"when": datetime(2026, 1, 1), "share": math.nan, "picture": b"\xff"}
    rows = [{**dict.fromkeys(columns), **one, **other} for one in objects]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    lines = predicted(job, tmp_path / "in.parquet", 100).splitlines()
    assert list(map(json.loads, lines)) == [
        {"when": "2026-01-01 00:00:00", **json.loads(line)} for line in expected.splitlines()
    ]


def test_bytes_are_text(tmp_path, monkeypatch):
    predictor = predictor_of("sst")
    monkeypatch.setattr(predict, "open_job_predictor", lambda job: predictor)
    results = []
    for kind in (pa.string(), pa.binary()):
        column = pa.array(["A good film .", "Łódź"]).cast(kind)
        pq.write_table(pa.table({"sentence": column}), tmp_path / f"{kind}.parquet")
        results.append(predicted(job_of(tmp_path), tmp_path / f"{kind}.parquet", 100))
    assert results[0] == results[1] != ""
    pq.write_table(pa.table({"sentence": pa.array([b"good", b"\xff"])}), tmp_path / "bad.parquet")
    with pytest.raises(ElmoError, match=r'bad.parquet, line 2: "sentence"'):
        predicted(job_of(tmp_path), tmp_path / "bad.parquet", 100)
    assert (tmp_path / "out").read_text().count("\n") == 1


def test_a_model_that_carries_a_state(tmp_path):
    """It is for one process, which reads all lines."""
    path = write_archive(tmp_path / "run", **{"elmo.stateful": True})
    with pytest.raises(ElmoError, match=r"state .*--engine ray"):
        job_of(tmp_path, path.read_bytes()).open()
    source = bundled("fixtures/sst/predict.jsonl")
    predictor = Predictor.from_path(str(path), import_plugins=False)
    lines = predicted(job_of(tmp_path, str(path)), source, 1)
    assert lines == lines_of_allennlp(predictor, source, tmp_path)
    with stopped_at_shard(2), pytest.raises(KeyboardInterrupt):
        predicted(job_of(tmp_path, str(path)), source, 1)
    with pytest.raises(ElmoError, match="from batch to batch"):
        predicted(job_of(tmp_path, str(path)), source, 1)


def stopped_at_shard(number: int) -> AbstractContextManager:
    work = predict.PredictJob.__call__

    def stop(self, shard, contents):
        if shard.number == number:
            raise KeyboardInterrupt
        return work(self, shard, contents)

    return patch.object(predict.PredictJob, "__call__", stop)
