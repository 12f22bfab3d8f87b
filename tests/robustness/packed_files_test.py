import os
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_tasks.common import files
from tests.common.unpacking_test import CONTENT, DAMAGED, below, file, write_tar

NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "s"]), min_size=1, max_size=5).map("/".join)
MEMBERS = st.tuples(
    NAMES,
    st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]),
    NAMES | NAMES.map("/{}".format),
)


@given(st.lists(MEMBERS, max_size=8))
def test_whatever_the_members_nothing_is_outside(members):
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name)
        target = outer / "1/2/3/4/5/6"
        target.mkdir(parents=True)
        archive = write_tar(outer / "x.tar.gz", *members)
        before = below(outer)
        with suppress(*DAMAGED):
            files.unpack(archive, target)
        assert all(path.startswith("1/2/3/4/5/6/") for path in below(outer) - before)
        inside = os.path.realpath(target)
        assert all(os.path.realpath(path).startswith(inside) for path in target.rglob("*"))


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    members = [file("config.json"), ("vocabulary", tarfile.DIRTYPE, ""), file("vocabulary/tokens.txt")]
    return write_tar(tmp_path_factory.mktemp("packed") / "model.tar.gz", *members).read_bytes()


@given(st.integers(0), st.sampled_from(["flip", "cut", "fill"]))
def test_damage_is_noticed(packed, position, kind):
    position %= len(packed) * 8
    byte = position // 8
    damaged = {
        "flip": packed[:byte] + bytes([packed[byte] ^ 1 << position % 8]) + packed[byte + 1 :],
        "cut": packed[:byte],
        "fill": packed[:byte] + bytes(len(packed) - byte),
    }[kind]
    with tempfile.TemporaryDirectory() as name:
        target, archive = Path(name, "target"), Path(name, "x.tar.gz")
        target.mkdir()
        archive.write_bytes(damaged)
        try:
            files.unpack(archive, target)
        except DAMAGED:
            return
        # Without a checksum: the header of gzip, with the name and time of the packed file, and filling.
        assert kind != "cut"
        assert (target / "config.json").read_bytes() == CONTENT
        assert (target / "vocabulary/tokens.txt").read_bytes() == CONTENT
