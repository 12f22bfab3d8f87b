import json
from pathlib import Path

import pytest

from elmo_tasks.elmo.model import ElmoError
from elmo_tasks.paths import bundled
from elmo_tasks.predictors.command import PredictManager
from tests.predictors.archives import SIZES, predictor_of
from tests.sst.archives import write_archive

pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")
from pyarrow import parquet as pq

from elmo_tasks.scale import predict
from elmo_tasks.scale.shards import Reading, make_shards
from elmo_tasks.scale.storage import Folder


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
    prediction = predict.Prediction(
        archive=b"",
        overrides="",
        predictor=None,
        predictor_args={},
        batch_size=2,
        cuda=False,
        folder=folder,
        reading=reading,
    )
    of = predict.PredictShard(prediction)
    expected = (tmp_path / "expected").read_text()
    assert shard_by_shard(of, folder, source, 1, reading) == expected
    objects = [json.loads(line) for line in source.read_text().splitlines() if line.strip()]
    if len({tuple(each) for each in objects}) == 1:
        pq.write_table(pa.Table.from_pylist(objects), tmp_path / "in.parquet")
        assert shard_by_shard(of, folder, tmp_path / "in.parquet", 100, reading) == expected


def test_a_model_that_carries_a_state_is_refused(tmp_path):
    archive = write_archive(tmp_path / "run", **{"model.elmo.stateful": True})
    prediction = predict.Prediction(
        archive=archive.read_bytes(),
        overrides="",
        predictor=None,
        predictor_args={},
        batch_size=1,
        cuda=False,
        folder=Folder(str(tmp_path)),
        reading=Reading("."),
    )
    with pytest.raises(ElmoError, match="carries a state from batch to batch"):
        predict.PredictShard(prediction)
