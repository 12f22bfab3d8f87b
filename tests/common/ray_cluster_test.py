"""A Ray that others have started, as on a cluster."""

import signal

import h5py
import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: make install EXTRAS='ray'")

from elmo_tasks.common.ray_cluster import connected, ray
from tests.elmo.files import make_files
from tests.forked import Command

pytestmark = pytest.mark.slow


def test_no_ray_at_the_address():
    with (
        pytest.raises(ConnectionError, match=r"^--ray-address 127\.0\.0\.1:1: "),
        connected("127.0.0.1:1", cpus=1),
    ):
        pass


def test_a_signal_ends_the_process_as_before(monkeypatch):
    def init(**options):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    before = signal.signal(signal.SIGTERM, handler := lambda *_: None)
    try:
        with connected(None, cpus=1):
            assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_vectors_by_its_address_are_those_of_the_plain_command(cluster_address, tmp_path):
    """To the last bit; and it runs on."""
    # The processor multiplies with these sizes in one way, as with all published ones.
    options, weights = make_files(tmp_path / "bilm", projection_dim=16, dim=32)
    text = tmp_path / "in.txt"
    text.write_text("".join(f"line {n} of" + " words" * (n % 5) + "\n" for n in range(60)))
    command = ["elmo", "embed", "--options-file", options, "--weight-file", weights, text]
    Command([*command, tmp_path / "plain.hdf5"], tmp_path / "plain.log").succeed()
    on_ray = ["--engine", "ray", "--ray-address", cluster_address, "--workers", 1]
    Command([*command, tmp_path / "out", *on_ray], tmp_path / "ray.log").succeed()
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [row["line"] for row in rows] == list(range(1, 61))
    with h5py.File(tmp_path / "plain.hdf5") as file:
        for i, row in enumerate(rows):
            vectors = np.float32(row["layers"]).reshape(row["shape"])
            assert np.array_equal(vectors, file[str(i)])
    with connected(cluster_address, cpus=1):
        assert ray.cluster_resources()["CPU"] == 2
    assert not ray.is_initialized()
