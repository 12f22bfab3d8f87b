import gzip
import json
import os
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make install EXTRAS='ray'")
from pyarrow import parquet as pq

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs.runs import Reading, Shard, ShardReader, cut


def make_shards(sources: list[str], size: int, reading: Reading) -> list[Shard]:
    return [piece.shard for piece in cut(sources, size, reading)]


def read(sources, size, reading, order=None):
    """The lines of all shards, with their numbers as the shards have them."""
    pieces, reader = list(cut(sources, size, reading)), ShardReader(reading)
    shards, lines = [piece.shard for piece in pieces], []
    if pieces:
        size = sum(os.path.getsize(os.path.join(reading.folder, source)) for source in sources)
        assert sum(piece.steps for piece in pieces) == size
    assert all(piece.contents == ShardReader(reading).lines(piece.shard) for piece in pieces)
    for shard in order(shards) if order else shards:
        content = reader.lines(shard)
        assert len(content) == shard.lines
        lines += [(shard.source, shard.line + i, line) for i, line in enumerate(content)]
    return shards, sorted(lines, key=lambda line: line[:2])


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=9), max_size=12),
    size=st.integers(1, 40),
    ended=st.booleans(),
    packed=st.booleans(),
)
def test_every_line_once_in_any_order(tmp_path, lines, size, ended, packed):
    content = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(content) if packed else content)
    expected = content.removesuffix(b"\n").split(b"\n") if content else []
    if expected:
        expected[0] = expected[0].removeprefix(b"\xef\xbb\xbf")
    for order in (None, lambda shards: shards[::-1]):
        shards, found = read(["text"], size, Reading(str(tmp_path)), order)
        assert found == [("text", line_number, line) for line_number, line in enumerate(expected, start=1)]
    assert [shard.number for shard in shards] == list(range(len(shards)))
    for before, after in pairwise(shards):
        assert content[: after.start].count(b"\n") == after.line - 1 == before.line - 1 + before.lines


@pytest.mark.parametrize("values", [["a b", "", "ü c\nd"] * 5, [["a", "b"], []] * 7, [None, "x"]])
def test_rows_of_parquet(tmp_path, values):
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"id": range(len(values)), "text": values}), path, row_group_size=4)
    for size in (1, 30, 10_000):
        shards, found = read([path], size, Reading("."))
        assert found == [(path, line_number, value) for line_number, value in enumerate(values, start=1)]
        _, rows = read([path], size, Reading(".", objects=True))
        assert [row for *_, row in rows] == [{"id": n, "text": value} for n, value in enumerate(values)]
    assert len(shards) == 1
    with pytest.raises(ElmoError, match=r"columns id, text .*other"):
        make_shards([path], 10, Reading(".", column="other"))


def test_batches_are_not_cut_and_blank_lines_do_not_count(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps({"n": n}) + "\n" + " \n" * (n % 3) for n in range(20)))
    reading = Reading(".", objects=True, multiple=3)
    shards, found = read([str(path)], 1, reading)
    numbers = [sum(map(bool, map(bytes.strip, ShardReader(reading).lines(shard)))) for shard in shards]
    assert [number for number in numbers if number] == [3] * 6 + [2]
    assert [json.loads(line)["n"] for *_, line in found if line.strip()] == list(range(20))


def test_a_byte_that_is_not_utf8(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("fine ü\n".encode() * 9 + b"a \xff\n" + b"\xfe\n")
    for size in (1, 20, 1000):
        with pytest.raises(ElmoError, match=r"text, line 10: .*0xff.*74"):
            make_shards([str(path)], size, Reading(".", check_utf8=True))
        assert len(read([str(path)], size, Reading("."))[1]) == 11


def test_a_source_that_changes(tmp_path):
    path = tmp_path / "text"
    path.write_text("one\ntwo\n")
    _, second = make_shards([str(path)], 1, Reading("."))
    path.write_text("one\ntoo\n")
    with pytest.raises(ElmoError, match="text, line 2:"):
        ShardReader(Reading(".")).lines(second)
    path.write_bytes(gzip.compress(b"one\ntwo\n")[:-9])
    with pytest.raises(ElmoError, match=r"text: "):
        make_shards([str(path)], 1, Reading("."))
