import json
import math
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from allennlp.predictors import Predictor

from elmo_tasks.commands.ensemble import open_members, write_ensemble
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.modules.ensemble import EnsembleModel
from elmo_tasks.predictors.command import PredictManager
from tests.predictors.archives import SIZES, predictor_of
from tests.sst.archives import write_archive

pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")
from pyarrow import parquet as pq

from elmo_tasks.jobs import predict
from elmo_tasks.jobs.pool import Engine
from elmo_tasks.jobs.runs import RunRequest
from elmo_tasks.jobs.shards import Reading, make_shards
from elmo_tasks.jobs.storage import Folder


def job_of(archive: bytes, folder: Folder, reading: Reading, *, batch_size: int = 1) -> predict.PredictJob:
    """On the CPU, with nothing but the archive's own settings."""
    return predict.PredictJob(
        archive=archive,
        overrides="",
        predictor=None,
        predictor_args={},
        batch_size=batch_size,
        cuda=False,
        folder=folder,
        reading=reading,
    )


def shard_by_shard(
    of: predict.PredictShard, folder: Folder, source: Path, size: int, reading: Reading
) -> str:
    """What the workers write, done here."""
    results = ""
    for shard in make_shards([str(source)], size, reading):
        assert "error" not in of(shard)
        results += folder.read(predict.part_name(shard)).decode()
    return results


FIXTURES = {
    **{name: f"fixtures/{name}/predict.jsonl" for name in ("ner", "srl", "coref", "squad", "snli", "sst")},
    **{name: f"fixtures/classification/{name}/predict.jsonl" for name in ("agnews", "mrpc")},
}


@pytest.mark.parametrize("config", SIZES)
def test_every_task(config, tmp_path, monkeypatch):
    """A predictor reads shards as it reads the whole file."""
    predictor = predictor_of(config)
    monkeypatch.setattr(predict, "_predictor", lambda *_: predictor)
    source = bundled(FIXTURES[config])
    PredictManager(predictor, str(source), str(tmp_path / "expected"), 2, False, False).run()
    folder, reading = Folder(str(tmp_path / "parts")), Reading(".", objects=True, multiple=2)
    folder.create()
    job = job_of(b"", folder, reading, batch_size=2)
    of = predict.PredictShard(job)
    expected = (tmp_path / "expected").read_text()
    assert shard_by_shard(of, folder, source, 1, reading) == expected
    objects = [json.loads(line) for line in source.read_text().splitlines() if line.strip()]
    columns = dict.fromkeys(name for one in objects for name in one)
    other = {"when": datetime(2026, 1, 1), "share": math.nan, "picture": b"\xff"}
    rows = [{**dict.fromkeys(columns), **one, **other} for one in objects]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    assert shard_by_shard(of, folder, tmp_path / "in.parquet", 100, reading) == expected


def test_bytes_are_text(tmp_path, monkeypatch):
    predictor = predictor_of("sst")
    monkeypatch.setattr(predict, "_predictor", lambda *_: predictor)
    folder, reading = Folder(str(tmp_path / "parts")), Reading(".", objects=True)
    folder.create()
    of = predict.PredictShard(job_of(b"", folder, reading))
    results = []
    for kind in (pa.string(), pa.binary()):
        column = pa.array(["A good film .", "Łódź"]).cast(kind)
        pq.write_table(pa.table({"sentence": column}), tmp_path / f"{kind}.parquet")
        results.append(shard_by_shard(of, folder, tmp_path / f"{kind}.parquet", 100, reading))
    assert results[0] == results[1] != ""
    pq.write_table(pa.table({"sentence": pa.array([b"good", b"\xff"])}), tmp_path / "bad.parquet")
    (shard,) = make_shards([str(tmp_path / "bad.parquet")], 100, reading)
    assert 'line 2 (blank lines not counted): "sentence" is null' in of(shard)["error"]


def test_a_model_that_carries_a_state_is_refused(tmp_path):
    archive = write_archive(tmp_path / "run", **{"model.elmo.stateful": True})
    job = job_of(archive.read_bytes(), Folder(str(tmp_path)), Reading("."))
    with pytest.raises(ElmoError, match="carries a state from batch to batch"):
        predict.PredictShard(job)


def test_an_ensemble_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """Shards that are done are not done again, and the lines are those of `allennlp predict`."""
    archives = open_members([str(write_archive(tmp_path / f"run{seed}", seed=seed)) for seed in range(2)])
    model = EnsembleModel(vocab=archives[0].model.vocab, members=[archive.model for archive in archives])
    (tmp_path / "whole").mkdir()
    path = tmp_path / "whole/ensemble.tar.gz"
    write_ensemble(path, model, [archive.config for archive in archives])
    source = bundled("fixtures/sst/predict.jsonl")
    PredictManager(
        Predictor.from_path(str(path)), str(source), str(tmp_path / "expected"), 1, False, False
    ).run()
    job = job_of(path.read_bytes(), Folder(str(tmp_path / "out.partial")), Reading(".", objects=True))
    done = []

    def outcomes_here(make_work, shared, shards, *, stop_after, **_):
        work = make_work(shared)
        for shard in shards[:stop_after]:
            done.append(shard.number)
            yield work(shard) | {"number": shard.number}
        if stop_after is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(predict, "cluster", lambda *_, **__: nullcontext(1))
    for stop_after in (2, None):
        monkeypatch.setattr(predict, "outcomes", partial(outcomes_here, stop_after=stop_after))
        request = RunRequest(str(source), {}, Engine(shard_bytes=1), resume=stop_after is None, force=False)
        with pytest.raises(KeyboardInterrupt) if stop_after else nullcontext():
            predict.predict(job, request, str(tmp_path / "out"))
        assert (tmp_path / "out").exists() == (stop_after is None)
    assert done == list(range(len(done)))
    assert len(done) > 2
    assert (tmp_path / "out").read_text() == (tmp_path / "expected").read_text()
    assert not (tmp_path / "out.partial").exists()
