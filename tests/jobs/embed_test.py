"""The vectors of shards, in rows of Parquet."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")
from pyarrow import parquet as pq

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.elmo.files import read_frozen_bilm, read_options
from elmo_tasks.embedding.batches import BatchEncoder
from elmo_tasks.jobs.embed import EmbedJob, tokens_of
from elmo_tasks.jobs.locations import Folder
from elmo_tasks.jobs.runs import Outcome, Reading, cut
from elmo_tasks.jobs.sinks import ParquetSink
from tests.elmo.files import make_files


@pytest.fixture
def bilm(tmp_path) -> FrozenBiLm:
    # The processor multiplies with these sizes in one way, as with all published ones.
    options, weights = make_files(tmp_path / "bilm", projection_dim=16, dim=32)
    return read_frozen_bilm(read_options(options), weights)


def embed(bilm: FrozenBiLm, folder: Path, *, layers: str = "all", dtype: str = "float32") -> Outcome:
    """Does `text` in one shard, by a job that was pickled as for a worker elsewhere."""
    out = Folder(str(folder / "out"))
    out.create()
    sink = ParquetSink(
        out, layers=3 if layers == "all" else 1, dim=bilm.options.output_dim, dtype=dtype, about={}
    )
    encoder = BatchEncoder(
        bilm=bilm, start=bilm.initial_state(1), layers=layers, dtype=dtype, batch_tokens=20
    )
    job = EmbedJob(encoder=encoder, device="cpu", reading=Reading(str(folder)), sink=sink)
    ((shard, contents, _),) = cut(["text"], 10_000, job.reading)
    worker = pickle.loads(pickle.dumps(job))
    worker.open()
    return worker(shard, contents)


def rows(folder: Path) -> list[dict]:
    return pq.read_table(folder / "out").to_pylist()


@pytest.mark.parametrize(
    ("layers", "dtype"), [("all", "float32"), ("top", "float16"), ("average", "float32")]
)
def test_rows_are_in_order_whatever_the_batches(bilm, tmp_path, layers, dtype, monkeypatch):
    monkeypatch.setattr(ParquetSink, "window_tokens", 25)
    sentences = [["a", "bc"], [], ["d"] * 30, *([str(n)] * (n % 9) for n in range(40))]
    (tmp_path / "text").write_text("".join(" ".join(words) + "\n" for words in sentences))
    outcome = embed(bilm, tmp_path, layers=layers, dtype=dtype)
    assert outcome["sentences"] == len(sentences)
    assert outcome["tokens"] == sum(map(len, sentences))
    assert pq.ParquetFile(tmp_path / "out/part-000000.parquet").num_row_groups > 3
    for line, (row, words) in enumerate(zip(rows(tmp_path), sentences, strict=True), start=1):
        assert (row["source"], row["line"], row["tokens"]) == ("text", line, words)
        if words:
            expected = bilm.encode(bilm.padded_ids([words]))[:, 0]
            if layers != "all":
                expected = expected[-1:] if layers == "top" else expected.mean(dim=0, keepdim=True)
            vectors = np.array(row["layers"], dtype).reshape(row["shape"])
            assert np.array_equal(vectors, expected.numpy().astype(dtype))


def test_an_error_names_source_and_line_and_leaves_no_part(bilm, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("a\nb b\nc\n")
    stock = FrozenBiLm.encode
    monkeypatch.setattr(FrozenBiLm, "encode", lambda self, ids, start: stock(self, ids, start) * torch.nan)
    with pytest.raises(ElmoError, match=r"^text, line 2:"):
        embed(bilm, tmp_path)
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("content", [None, 3, ["a", ""], ["a", None], b"\xff", "w " * 70_000])
def test_what_is_no_sentence(content):
    with pytest.raises(ValueError, match=r"is n|more than"):
        tokens_of(content)
