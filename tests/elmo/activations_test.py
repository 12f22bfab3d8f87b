import copy
import errno
import gc
import json
import logging
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive
from safetensors import safe_open

from elmo_tasks.elmo import BiLm, Elmo, activations
from elmo_tasks.elmo.activations import Activations
from tests.conftest import SMALL_NER_ELMO, environment
from tests.elmo.files import SENTENCES, batch, make_files

BATCHES = [
    SENTENCES,
    [SENTENCES[3]],
    [SENTENCES[4], SENTENCES[0], SENTENCES[4], [], SENTENCES[4]],
    [["Another", "one"], ["cat"], SENTENCES[1]],
    [[], []],
]
DISTINCT = 6
"""Sentences with words in `BATCHES`."""


@pytest.fixture
def files(tmp_path):
    options_file, weight_file = make_files(tmp_path / "bilm")
    return {"options_file": str(options_file), "weight_file": str(weight_file)}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def warnings(caplog):
    """The warnings so far, as one text."""
    return lambda: "\n".join(r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING)


class Run:
    """As much of a run as concerns the layers; it ends with `close`, as a process does."""

    def __init__(self, files, folder, *, initial_state=None, **block):
        self.elmo = Elmo(
            activations={"path": str(folder), **block} if folder else None,
            initial_state=initial_state,
            **files,
        )
        self.encoded = []
        encode = self.elmo.bilm.encode

        def counted(ids, start=None):
            self.encoded.append(len(ids))
            return encode(ids, start)

        self.elmo.bilm.encode = counted

    def layers(self, sentences):
        ids = batch(sentences)
        if self.elmo.activations is None:
            return self.elmo.bilm.encode(ids, self.elmo.start)
        return self.elmo.activations.layers(ids, self.elmo.bilm, self.elmo.start)

    def all_layers(self):
        return [self.layers(sentences) for sentences in BATCHES]

    def close(self):
        """Returns how many sentences were encoded."""
        del self.elmo
        return sum(self.encoded)


def fill(files, folder, **settings):
    run = Run(files, folder, **settings)
    run.all_layers()
    return run.close()


def shards(folder):
    return sorted(folder.glob("*/*.safetensors"))


def expected(files):
    return Run(files, None).all_layers()


def assert_same(found, wanted, **tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **(tolerance or {"atol": 1e-5, "rtol": 0}))


# What is kept


def test_float32_changes_no_bit(files, folder):
    """Each sentence as the biLM gave it once, in whatever batch it comes again."""
    placed = [words for words in SENTENCES if words]
    first, given, bilm = Run(files, folder), [], BiLm.read(**files).requires_grad_(False)
    for words in placed:
        given.append(first.layers([words])[:, 0])
        assert torch.equal(given[-1], bilm.encode(batch([words]))[:, 0])
    assert first.close() == len(placed)
    run = Run(files, folder)
    for seed in range(20):
        chosen = random.Random(seed).choices(SENTENCES, k=7)
        layers = run.layers(chosen)
        assert layers.dtype == torch.float32
        assert layers.shape == (3, 7, max(map(len, chosen)), 12)
        for row, words in enumerate(chosen):
            assert not layers[:, row, len(words) :].any()
            if words:
                assert torch.equal(layers[:, row, : len(words)], given[placed.index(words)])
    assert run.close() == 0


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_second_run_encodes_nothing(files, folder, dtype):
    first, second = (Run(files, folder, dtype=dtype) for _ in range(2))
    written = first.all_layers()
    assert first.close() == DISTINCT
    read = second.all_layers()
    assert second.close() == 0
    assert_same(read, written, atol=0, rtol=0)
    assert_same(read, expected(files), atol=4e-3 if dtype == "float16" else 1e-5, rtol=0)


def test_float16_takes_half_of_the_space(files, tmp_path):
    values = {}
    for dtype in ("float16", "float32"):
        fill(files, tmp_path / dtype, dtype=dtype)
        (shard,) = shards(tmp_path / dtype)
        with safe_open(shard, framework="pt") as file:
            values[dtype] = file.get_tensor("values")
    assert torch.equal(values["float16"], values["float32"].half())
    # The token layer once, and two layers of two directions
    assert values["float16"].shape == (sum(len(words) for words in SENTENCES) + 3, 5 * 6)


def test_int16_and_int64_ids_are_the_same_sentence(files, folder):
    elmo = Elmo(activations=str(folder), **files)
    vectors = elmo(batch(SENTENCES)).input
    elmo.bilm.register_forward_pre_hook(lambda *_: pytest.fail("encoded again"))
    assert torch.equal(elmo(batch(SENTENCES).long()).input, vectors)


def test_more_padding_than_the_longest_sentence_needs(files, folder):
    ids = torch.nn.functional.pad(batch([SENTENCES[0], SENTENCES[3]]), (0, 0, 0, 3))
    with_folder, without = Elmo(activations=str(folder), **files), Elmo(**files)
    torch.testing.assert_close(with_folder(ids).input, without(ids).input, atol=1e-5, rtol=0)


def test_only_the_mix_has_a_graph(files, folder):
    elmo = Elmo(activations=str(folder), **files)
    layers = elmo.activations.layers(batch(SENTENCES), elmo.bilm, elmo.start)
    assert not layers.requires_grad
    elmo(batch(SENTENCES)).input.sum().backward()
    assert elmo.mixes["input"].scores.grad is not None


def test_values_that_float16_cannot_hold_are_not_kept(files, folder, warnings):
    exact = Run(files, None)
    run = Run(files, folder, dtype="float16")
    for each in (exact, run):
        with torch.no_grad():
            each.elmo.bilm.token_encoder.projection.weight.mul_(1e6)
    largest = {tuple(words): exact.layers([words]).abs().max() for words in SENTENCES if words}
    too_large = sum(value > 65504 for value in largest.values())
    assert too_large > 0
    for _ in range(2):
        found, wanted = run.layers(SENTENCES), exact.layers(SENTENCES)
        assert found.isfinite().all()
        torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-3)
    assert run.encoded == [len(largest), too_large]
    assert warnings().count("is not finite in float16") == 1


def test_shards_by_size(files, folder, monkeypatch):
    monkeypatch.setattr(activations, "SHARD_BYTES", 1000)
    run = Run(files, folder)
    wanted = run.all_layers()
    # The last two sentences still wait.
    assert len(shards(folder)) == 2
    assert_same(run.all_layers(), wanted, atol=0, rtol=0)
    assert run.close() == DISTINCT


def test_shards_by_time(files, folder, monkeypatch):
    run = Run(files, folder)
    run.layers(SENTENCES)
    assert not shards(folder)
    monkeypatch.setattr(activations, "WAITING_SECONDS", 0.0)
    run.layers([SENTENCES[0]])
    assert len(shards(folder)) == 1


def test_flush(files, folder):
    elmo = Elmo(activations=str(folder), **files)
    elmo.activations.flush()
    elmo(batch(SENTENCES))
    elmo.activations.flush()
    elmo.activations.flush()
    assert len(shards(folder)) == 1


# What is never mixed up


def state_file(path, value):
    with h5py.File(path, "w") as file:
        file["hidden"], file["memory"] = np.full((2, 2, 6), value), np.full((2, 2, 12), value)
    return str(path)


def test_sources_never_share(files, folder, tmp_path):
    other = tmp_path / "other"
    make_files(other, activation="tanh")
    (other / "weights.hdf5").write_bytes(Path(files["weight_file"]).read_bytes())
    with h5py.File(other / "changed.hdf5", "w") as file, h5py.File(files["weight_file"]) as source:
        for name in source:
            source.copy(name, file)
        file["char_embed"][7, 1] += 1e-3
    settings = [
        ({}, {}),
        ({"options_file": str(other / "options.json")}, {}),
        ({"weight_file": str(other / "changed.hdf5")}, {}),
        ({}, {"initial_state": state_file(tmp_path / "half.hdf5", 0.5)}),
        ({}, {"initial_state": state_file(tmp_path / "third.hdf5", 0.3)}),
        ({}, {"dtype": "float16"}),
    ]
    for count, (changed, block) in enumerate(settings, start=1):
        assert fill(files | changed, folder, **block) == DISTINCT
        assert len(list(folder.iterdir())) == count
    for changed, block in settings:
        assert fill(files | changed, folder, **block) == 0


def test_the_same_weights_share_wherever_they_come_from(files, folder, tmp_path):
    fill(files, folder)
    moved = Path(files["weight_file"]).rename(tmp_path / "moved.hdf5")
    assert fill(files | {"weight_file": str(moved)}, folder) == 0


def test_weights_that_change_in_place(files, folder):
    run = Run(files, folder)
    before = run.layers(SENTENCES)
    state = copy.deepcopy(run.elmo.state_dict())
    run.elmo.load_state_dict(state)
    run.layers(SENTENCES)
    assert len(run.encoded) == 1

    changed = {name: tensor + 0.1 if "lstm" in name else tensor for name, tensor in state.items()}
    run.elmo.load_state_dict(changed)
    after = run.layers(SENTENCES)
    assert len(run.encoded) == 2
    torch.testing.assert_close(after, run.elmo.bilm.encode(batch(SENTENCES)))

    run.elmo.bilm.lstm.directions[0][0].bias.data = torch.zeros(48)
    torch.testing.assert_close(run.layers(SENTENCES), run.elmo.bilm.encode(batch(SENTENCES)))

    run.elmo.load_state_dict(state)
    run.encoded.clear()
    assert torch.equal(run.layers(SENTENCES), before)
    assert not run.encoded
    assert len(list(folder.iterdir())) == 3


def test_a_start_that_changes_in_place(files, folder):
    run = Run(files, folder)
    before = run.layers(SENTENCES)
    run.elmo.start_hidden += 0.5
    assert not torch.allclose(run.layers(SENTENCES), before, atol=1e-3)


def test_digest_only_when_something_changed(files, folder, monkeypatch):
    run = Run(files, folder)
    digests, digest = [], run.elmo.bilm.digest
    monkeypatch.setattr(run.elmo.bilm, "digest", lambda: digests.append(1) or digest())
    run.all_layers()
    assert len(digests) == 1
    # As distributed training does at each step
    run.elmo.start_hidden.copy_(run.elmo.start_hidden.clone())
    run.all_layers()
    assert len(digests) == 1
    run.elmo.half().float()
    run.layers(SENTENCES)
    assert len(digests) == 2


def test_about_says_what_the_folder_is_of(files, folder):
    fill(files, folder, dtype="float16")
    (about,) = folder.glob("*/activations.json")
    content = json.loads(about.read_text())
    assert content["bilm"] == Elmo(**files).bilm.digest()
    assert content["dtype"] == "float16"
    assert content["options"]["lstm"]["dim"] == 12


def test_shard_of_another_source_is_not_believed(files, tmp_path, warnings):
    started = {"initial_state": state_file(tmp_path / "half.hdf5", 0.5)}
    fill(files, tmp_path / "zeros")
    fill(files, tmp_path / "half", **started)
    (zeros,), (half,) = shards(tmp_path / "zeros"), shards(tmp_path / "half")
    half.write_bytes(zeros.read_bytes())
    run = Run(files, tmp_path / "half", **started)
    assert_same(run.all_layers(), Run(files, None, **started).all_layers())
    assert run.close() == DISTINCT
    assert f"{DISTINCT} of {DISTINCT} sentences in {half} are damaged" in warnings()


# Damage


def header_length(content):
    return 8 + int.from_bytes(content[:8], "little")


def flip(content, position):
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


DAMAGES = {
    "cut in the values": (lambda content: content[:-1000], DISTINCT, "cannot be read"),
    "a byte less": (lambda content: content[:-1], DISTINCT, "cannot be read"),
    "a byte more": (lambda content: content + b"x", DISTINCT, "cannot be read"),
    "cut in the header": (lambda content: content[:50], DISTINCT, "cannot be read"),
    "empty": (lambda content: b"", DISTINCT, "cannot be read"),
    "garbage": (lambda content: random.Random(1).randbytes(4000), DISTINCT, "cannot be read"),
    "other name": (lambda content: content.replace(b"keys", b"kezs"), DISTINCT, "cannot be read"),
    "other type": (lambda content: content.replace(b"F32", b"I32"), DISTINCT, "expected torch.float32"),
    "one value": (lambda content: flip(content, len(content) - 1000), 1, f"1 of {DISTINCT} sentences"),
    "all zeros": (
        lambda content: content[: header_length(content)] + bytes(len(content) - header_length(content)),
        DISTINCT,
        "not numbers of tokens",
    ),
}


@pytest.mark.parametrize(
    ("damage", "encoded", "message"),
    DAMAGES.values(),
    ids=DAMAGES,
)
def test_damage_is_reported_and_mended(files, folder, warnings, damage, encoded, message):
    fill(files, folder)
    (shard,) = shards(folder)
    shard.write_bytes(damage(shard.read_bytes()))
    run = Run(files, folder)
    assert_same(run.all_layers(), expected(files))
    assert run.close() == encoded
    assert message in warnings()
    assert warnings().count(str(shard)) == 1
    again = Run(files, folder)
    assert_same(again.all_layers(), expected(files))
    assert again.close() == 0


def test_no_flipped_byte_goes_unnoticed(files, folder):
    """Every byte of the header, and some of the rest."""
    fill(files, folder)
    (shard,) = shards(folder)
    whole = shard.read_bytes()
    elmo, wanted = Elmo(**files), expected(files)
    header = header_length(whole)
    for position in [*range(header), *range(header, len(whole), 29)]:
        shard.write_bytes(flip(whole, position))
        kept = Activations(path=str(folder))
        found = [kept.layers(batch(sentences), elmo.bilm, elmo.start) for sentences in BATCHES]
        assert_same(found, wanted)
        del kept
        for path in shards(folder):
            if path != shard:
                path.unlink()


def test_files_that_disappear(files, folder):
    wanted = expected(files)
    run = Run(files, folder)
    run.layers(BATCHES[0])
    run.elmo.activations.flush()
    shutil.rmtree(folder)
    assert_same(run.all_layers(), wanted)
    run.elmo.activations.flush()
    shutil.rmtree(folder)
    assert_same(run.all_layers(), wanted)
    assert run.close() == DISTINCT
    assert fill(files, folder) == DISTINCT


def test_shard_deleted_between_listing_and_reading(files, folder, monkeypatch):
    fill(files, folder)
    (shard,) = shards(folder)
    monkeypatch.setattr(activations, "_modified", lambda path: path.unlink(missing_ok=True) or 0.0)
    assert_same(Run(files, folder).all_layers(), expected(files))
    assert not shard.exists()


def test_temporary_files_of_killed_processes(files, folder):
    fill(files, folder)
    old, new = (shards(folder)[0].with_name(f"{name}.tmp") for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half of a shard")
    os.utime(old, (time.time() - 4000, time.time() - 4000))
    assert fill(files, folder) == 0
    assert new.exists()
    assert not old.exists()


# Several processes


WORKER = """
import json, os, signal, sys
from elmo_tasks.elmo import Elmo, activations
from tests.elmo.files import batch

folder, files, sentences, killed_at = json.loads(sys.argv[1])
activations.SHARD_BYTES, activations.LOOK_SECONDS = 2000, 0.0
writes, fsync = [], os.fsync

def half_written(descriptor):
    writes.append(descriptor)
    if len(writes) == killed_at:
        os.ftruncate(descriptor, 300)
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)

os.fsync = half_written
elmo = Elmo(activations=folder, **files)
for words in sentences:
    elmo(batch([words]))
"""


def start_worker(folder, files, sentences, killed_at=None):
    arguments = json.dumps([str(folder), files, sentences, killed_at])
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, arguments],
        env=environment(),
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )


NUMBERED = [[f"number{number}", "of", "many", "sentences"] for number in range(60)]


def test_two_processes_write_at_once(files, folder):
    orders = [random.Random(seed).sample(NUMBERED, 40) for seed in range(2)]
    workers = [start_worker(folder, files, order) for order in orders]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    run = Run(files, folder)
    written = [words for words in NUMBERED if any(words in order for order in orders)]
    assert_same([run.layers(written)], [Run(files, None).layers(written)])
    assert run.close() == 0
    assert not list(folder.glob("*/*.tmp"))


def test_killed_in_the_middle_of_a_write(files, folder):
    # Killed while its fourth file is written: behind the description and two shards of four sentences
    worker = start_worker(folder, files, NUMBERED, killed_at=4)
    worker.communicate(timeout=120)
    assert worker.returncode == -signal.SIGKILL
    assert [path.stat().st_size for path in folder.glob("*/*.tmp")] == [300]
    run = Run(files, folder)
    assert_same([run.layers(NUMBERED)], [Run(files, None).layers(NUMBERED)])
    assert run.close() == len(NUMBERED) - 2 * 5
    assert len(shards(folder)) == 3


def test_sees_what_another_has_written_in_the_meantime(files, folder, monkeypatch):
    monkeypatch.setattr(activations, "LOOK_SECONDS", 0.0)
    one, other = Run(files, folder), Run(files, folder)
    one.layers([SENTENCES[0]])
    other.layers([SENTENCES[3]])
    one.elmo.activations.flush()
    other.layers([SENTENCES[0]])
    assert other.close() == 1
    one.layers([SENTENCES[3]])
    assert one.close() == 1


# Space


def test_limit(files, folder, tmp_path, monkeypatch, warnings):
    monkeypatch.setattr(activations, "SHARD_BYTES", 1000)
    monkeypatch.setattr(activations, "LOOK_SECONDS", 0.0)
    fill(files, folder, initial_state=state_file(tmp_path / "half.hdf5", 0.5))
    size = sum(shard.stat().st_size for shard in shards(folder))
    (other,) = folder.iterdir()
    for _ in range(2):
        run = Run(files, folder, limit_gb=(size + 3000) / 1e9)
        assert_same(run.all_layers(), expected(files))
        assert_same(run.all_layers(), expected(files))
    kept = sum(shard.stat().st_size for shard in shards(folder))
    assert size < kept <= size + 3000
    assert f"Folders of other weights, start states or dtypes: {other.name} (" in warnings()
    assert f"go beyond limit_gb, {(size + 3000) / 1e9:.3g}" in warnings()
    assert warnings().count("nothing is written") == 2


def test_files_of_others_do_not_count(files, folder):
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "big.safetensors").write_bytes(bytes(100_000))
    fill(files, folder, limit_gb=2e-5)
    assert fill(files, folder, limit_gb=2e-5) == 0


def test_full_disk(files, folder, monkeypatch, warnings):
    def no_space(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    monkeypatch.setattr(activations, "SHARD_BYTES", 1000)
    run = Run(files, folder)
    for _ in range(2):
        assert_same(run.all_layers(), expected(files))
    run.close()
    assert not [path for path in folder.glob("*/*") if path.is_file()]
    assert warnings().count("No space left on device") == 1


# The config


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_path_or_block(files, folder, dtype):
    block = {"path": str(folder), "dtype": dtype, "limit_gb": 2}
    given = Elmo.from_params(Params({"activations": block, **files})).activations
    assert (given.path, given.dtype, given.limit_gb) == (str(folder), dtype, 2)
    given = Elmo.from_params(Params({"activations": str(folder), **files})).activations
    assert (given.path, given.dtype, given.limit_gb) == (str(folder), "float32", 100.0)
    assert Elmo.from_params(Params({"activations": None, **files})).activations is None


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"path": "x", "dtyp": "float16"}, "Activations: unknown key 'dtyp'; did you mean 'dtype'?"),
        ({"dtype": "float16"}, 'key "path" is required'),
        ({"path": "x", "dtype": "half"}, "dtype is 'half', expected one of float32, float16"),
        ({"path": "x", "limit_gb": 0}, "limit_gb is 0, expected more than 0"),
        (5, "activations is 5, expected a path or a block"),
    ],
)
def test_wrong_block(files, block, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        Elmo.from_params(Params({"activations": block, **files}))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("other", "message"),
    [("trainable", "of a frozen biLM"), ("stateful", "of sentences on their own")],
)
def test_refused(files, folder, other, message):
    with pytest.raises(ConfigurationError, match=message):
        Elmo(activations=str(folder), **{other: True}, **files)


def test_folder_that_cannot_be_made(files, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot write to .*file.kept: "):
        Elmo(activations=str(tmp_path / "file" / "kept"), **files)


def test_unused_where_elmo_is_nowhere(files, folder):
    Elmo(placement="none", activations=str(folder), **files)(batch(SENTENCES))
    assert not folder.exists()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_copies_share_the_folder(files, folder, copied):
    elmo = Elmo(activations={"path": str(folder), "dtype": "float16", "limit_gb": 3.0}, **files)
    vectors = elmo(batch(SENTENCES)).input
    again = copied(elmo)
    assert (again.activations.dtype, again.activations.limit_gb) == ("float16", 3.0)
    assert torch.equal(again(batch(SENTENCES)).input, vectors)
    del elmo, again
    assert fill(files, folder, dtype="float16") == 2


# Training


@pytest.fixture
def one_thread():
    """With several, two runs differ in the last digits, whatever they do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_training_gives_the_same_metrics(ner_config, folder, tmp_path, monkeypatch):
    batches = []
    encode = BiLm.encode
    monkeypatch.setattr(BiLm, "encode", lambda *inputs: batches.append(1) or encode(*inputs))

    def metrics(name, **elmo):
        overrides = SMALL_NER_ELMO | {"trainer.num_epochs": 2} | elmo
        batches.clear()
        gc.collect()  # as a run before leaves the process
        train_model(Params.from_file(str(ner_config), json.dumps(overrides)), str(tmp_path / name))
        found = json.loads((tmp_path / name / "metrics.json").read_text())
        return {k: v for k, v in found.items() if "duration" not in k and "memory" not in k}, len(batches)

    without, each_time = metrics("without")
    first, once = metrics("first", **{"model.elmo.activations": str(folder)})
    second, never = metrics("second", **{"model.elmo.activations": str(folder)})
    assert without == first == second
    assert never == 0 < once < each_time
    # The archive needs no folder.
    shutil.rmtree(folder)
    model = load_archive(tmp_path / "second" / "model.tar.gz").model
    assert model.elmo.activations is None
    assert not folder.exists()
