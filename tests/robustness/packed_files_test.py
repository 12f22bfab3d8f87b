import os
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from elmo_tasks.common import files
from tests.common.unpacking_test import DAMAGED, below, write_tar

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
