"""What a worker does, without Ray."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")
from pyarrow import parquet as pq

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.elmo.files import read_frozen_bilm, read_options
from elmo_tasks.jobs import embed
from elmo_tasks.jobs.shards import Reading, make_shards
from elmo_tasks.jobs.storage import Folder
from tests.elmo.files import make_files


@pytest.fixture
def bilm(tmp_path) -> FrozenBiLm:
    # Of sizes that the processor multiplies with in one way, as all that are published
    options, weights = make_files(tmp_path / "bilm", projection_dim=16, dim=32)
    return read_frozen_bilm(read_options(options), weights)


def work(bilm: FrozenBiLm, folder: Path, **changes) -> embed.EmbedShard:
    settings = {"device": "cpu", "layers": "all", "dtype": "float32", "batch_tokens": 20, "skip_bad": False}
    out = Folder(str(folder / "out"))
    out.create()
    return embed.EmbedShard(
        embed.embed_job(
            bilm, bilm.initial_state(1), **settings | changes, folder=out, reading=Reading(str(folder))
        )
    )


def rows(folder: Path) -> list[dict]:
    return pq.read_table(folder / "out").to_pylist()


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_rows_are_in_order_whatever_the_batches(bilm, tmp_path, layers, monkeypatch):
    monkeypatch.setattr(embed, "WINDOW_TOKENS", 25)
    sentences = [["a", "bc"], [], ["d"] * 30, *([str(n)] * (n % 9) for n in range(40))]
    (tmp_path / "text").write_text("".join(" ".join(words) + "\n" for words in sentences))
    (shard,) = make_shards(["text"], 10_000, Reading(str(tmp_path)))
    outcome = work(bilm, tmp_path, layers=layers)(shard)
    assert outcome["sentences"] == len(sentences)
    assert outcome["tokens"] == sum(map(len, sentences))
    assert pq.ParquetFile(tmp_path / "out/part-000000.parquet").num_row_groups > 3
    for line, (row, words) in enumerate(zip(rows(tmp_path), sentences, strict=True), start=1):
        assert (row["source"], row["line"], row["tokens"]) == ("text", line, words)
        if words:
            expected = bilm.encode(bilm.padded_ids([words]))[:, 0]
            if layers != "all":
                expected = expected[-1:] if layers == "top" else expected.mean(dim=0, keepdim=True)
            assert np.array_equal(np.float32(row["layers"]).reshape(row["shape"]), expected)


def test_half_precision_is_that_of_the_vectors(bilm, tmp_path):
    (tmp_path / "text").write_text("a b\n")
    (shard,) = make_shards(["text"], 10, Reading(str(tmp_path)))
    work(bilm, tmp_path, dtype="float16")(shard)
    ((row),) = rows(tmp_path)
    expected = bilm.encode(bilm.padded_ids([["a", "b"]]))[:, 0].numpy().astype(np.float16)
    assert np.array_equal(np.float16(row["layers"]).reshape(row["shape"]), expected)


@pytest.mark.parametrize(
    ("value", "dtype", "layers", "message"),
    [
        (torch.nan, "float32", "all", "found vectors that are not finite"),
        (torch.nan, "float16", "top", "found vectors that are not finite"),
        (1e5, "float16", "all", "found a value above 65,504, which float16 cannot hold, expected --dtype"),
        (1e5, "float16", "top", None),
        (1e5, "float32", "all", None),
    ],
)
def test_vectors_that_cannot_be_written_name_their_line(
    bilm, tmp_path, monkeypatch, value, dtype, layers, message
):
    """Those of a layer below count where they say that the weights are damaged."""
    (tmp_path / "text").write_text("a\nb b\nc\n")
    (shard,) = make_shards(["text"], 10, Reading(str(tmp_path)))
    of = work(bilm, tmp_path, dtype=dtype, layers=layers)
    encode = FrozenBiLm.encode

    def damaged(self, ids, start):
        layers = encode(self, ids, start)
        layers[1, 0, 0, 0] = value
        return layers

    monkeypatch.setattr(FrozenBiLm, "encode", damaged)
    if message is None:
        of(shard)
        assert len(list(rows(tmp_path))) == 3
        return
    with pytest.raises(ElmoError, match=f"^text, line 2: {message}"):
        of(shard)
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("content", [None, 3, ["a", ""], ["a", None], b"\xff", "w " * 70_000])
def test_what_is_no_sentence(content):
    with pytest.raises(ValueError, match=r"^found .*, expected "):
        embed.tokens_of(content)
