import copy
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch

h5py = pytest.importorskip("h5py")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import Elmo
from tests.elmo.activation_runs import DISTINCT, Run, assert_same, databases, expected, fill
from tests.elmo.files import SENTENCES, WEIGHTS, batch, make_files, read_frozen


def test_float32_changes_no_bit(files, folder):
    """Each sentence as the biLM gave it once, in whatever batch it comes again."""
    placed = [words for words in SENTENCES if words]
    first, given, bilm = Run(files, folder), [], read_frozen(**files)
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


def test_values_that_float16_cannot_hold(files, folder):
    run = Run(files, folder, dtype="float16")
    name = "token_encoder.projection.weight"
    with torch.no_grad():
        larger = 1e6 * run.elmo.bilm.state_dict()[name]
        run.elmo.bilm.load_state_dict({name: larger}, strict=False)
    with pytest.raises(ElmoError, match="float32"):
        run.layers(SENTENCES)


def state_file(path, value):
    with h5py.File(path, "w") as file:
        file["hidden"], file["memory"] = np.full((2, 2, 6), value), np.full((2, 2, 12), value)
    return str(path)


def test_sources_never_share(files, folder, tmp_path):
    other = tmp_path / "other"
    make_files(other, activation="tanh")
    (other / WEIGHTS).write_bytes(Path(files["weight_file"]).read_bytes())
    with h5py.File(other / "changed.hdf5", "w") as file, h5py.File(files["weight_file"]) as source:
        for name in source:
            source.copy(name, file)
        file["char_embed"][7, 1] += 1e-3
        del file["char_embed"].attrs["blake2b"]
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
        assert len(databases(folder)) == count
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

    name = "lstm.directions.0.0.bias"
    run.elmo.bilm.load_state_dict({name: torch.zeros(48)}, strict=False)
    torch.testing.assert_close(run.layers(SENTENCES), run.elmo.bilm.encode(batch(SENTENCES)))

    run.elmo.load_state_dict(state)
    run.encoded.clear()
    assert torch.equal(run.layers(SENTENCES), before)
    assert not run.encoded
    assert len(databases(folder)) == 3


def sizes(folder):
    return [path.stat().st_size for path in databases(folder)]


def test_limit(files, folder, tmp_path, warnings):
    fill(files, folder, initial_state=state_file(tmp_path / "half.hdf5", 0.5))
    (before,) = sizes(folder)
    limit, plain = before + 90_000, Run(files, None)
    for _ in range(2):
        run = Run(files, folder, limit_gb=limit / 1e9)
        for sentence in range(40):
            words = [[f"number{sentence}", "of", "many", "sentences"]]
            wanted = plain.layers(words)
            assert_same([run.layers(words) for _ in range(2)], [wanted, wanted])
        assert 0 < run.close() < 80
    assert before < sum(sizes(folder)) <= limit
    assert f"go beyond limit_gb, {limit / 1e9:.3g}" in warnings()
    assert warnings().count("The run continues") == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_copies_share_the_folder(files, folder, copied):
    elmo = Elmo(activations={"path": str(folder), "dtype": "float16", "limit_gb": 3.0}, **files)
    vectors = elmo(batch(SENTENCES)).input
    again = copied(elmo)
    assert (again.activations.dtype, again.activations.limit_gb) == ("float16", 3.0)
    assert torch.equal(again(batch(SENTENCES)).input, vectors)
    del elmo, again
    assert fill(files, folder, dtype="float16") == 2
