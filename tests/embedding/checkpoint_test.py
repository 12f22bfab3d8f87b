import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import LstmState
from elmo_tasks.embedding.hdf5 import CHECKPOINT, Checkpoint

SETTINGS = {"the text": "x", "--stateful": True, "--initial-state": None}


def test_checkpoint_is_read_back(tmp_path):
    state = LstmState(torch.randn(2, 2, 1, 3), torch.randn(2, 2, 1, 5))
    Checkpoint(5, 60, state).save(tmp_path, SETTINGS)
    lines, tokens, found = Checkpoint.load(tmp_path, SETTINGS)
    assert (lines, tokens) == (5, 60)
    assert all(map(torch.equal, found, state))
    Checkpoint(6, 61).save(tmp_path, SETTINGS)
    assert Checkpoint.load(tmp_path, SETTINGS) == (6, 61, None)
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"the text": "y"}, "the text"),
        ({"--stateful": False}, "--stateful (was True, is False)"),
        ({"the text": "y", "--layers": "top"}, "the text, --layers (was None, is top)"),
    ],
)
def test_what_differs_is_named(tmp_path, changes, difference):
    Checkpoint().save(tmp_path, SETTINGS)
    with pytest.raises(ElmoError) as caught:
        Checkpoint.load(tmp_path, SETTINGS | changes)
    message = f"{tmp_path} cannot be resumed, this differs: {difference}; --force starts anew"
    assert str(caught.value) == message


def test_a_broken_file(tmp_path):
    Checkpoint().save(tmp_path, SETTINGS)
    content = (tmp_path / CHECKPOINT).read_bytes()
    for broken in (b"", b"no zip", content[: len(content) // 2], content[:-10]):
        (tmp_path / CHECKPOINT).write_bytes(broken)
        with pytest.raises(ElmoError, match=rf"{CHECKPOINT}: not a checkpoint .*; --force starts"):
            Checkpoint.load(tmp_path, SETTINGS)
