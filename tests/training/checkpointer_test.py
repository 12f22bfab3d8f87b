import copy
import errno
import logging
import resource
from types import SimpleNamespace

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.training.moving_average import ExponentialMovingAverage, MovingAverage
from allennlp.training.trainer import TrainerCheckpoint
from torch import nn

from elmo_tasks.training.checkpointer import SafeCheckpointer
from tests.errors import error_of, mentions


class Trainer:
    """A trainer as far as a checkpointer uses it."""

    _moving_average: MovingAverage | None = None

    def __init__(self) -> None:
        self.epochs = 0

    def get_checkpoint_state(self) -> TrainerCheckpoint:
        tracker = {"best_so_far": float(self.epochs), "is_best_so_far": True}
        state = {"epochs_completed": self.epochs, "batches_in_epoch_completed": 0}
        state |= {"best_model_filename": None, "metric_tracker": tracker}
        return TrainerCheckpoint({"weight": torch.full((3,), float(self.epochs))}, state)


@pytest.fixture
def run(tmp_path):
    """A run with the checkpoints of epochs 1 and 2."""
    trainer, checkpointer = Trainer(), SafeCheckpointer(tmp_path)
    for trainer.epochs in (1, 2):
        checkpointer.save_checkpoint(trainer)
    return SimpleNamespace(folder=tmp_path, trainer=trainer, checkpointer=checkpointer)


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def test_takes_the_newest(run, tmp_path_factory):
    assert run.checkpointer.load_checkpoint().model_state["weight"][0] == 2
    assert SafeCheckpointer(tmp_path_factory.mktemp("empty")).load_checkpoint() is None


@pytest.mark.parametrize("damaged", ["model_state_e2_b0.th", "training_state_e2_b0.th"])
@pytest.mark.parametrize("damage", ["cut off", "missing"])
def test_passes_over_a_checkpoint_that_a_kill_cut_off(run, damaged, damage, caplog):
    file = run.folder / damaged
    cut(file) if damage == "cut off" else file.unlink()
    with caplog.at_level(logging.WARNING):
        state = run.checkpointer.load_checkpoint()
    assert state.model_state["weight"][0] == 1
    if damage == "cut off" or damaged.startswith("training"):
        assert "unfinished checkpoint" in caplog.text
    # Reached again, the damaged one is written anew.
    run.checkpointer.save_checkpoint(run.trainer)
    assert run.checkpointer.load_checkpoint().model_state["weight"][0] == 2


@pytest.mark.parametrize("best", ["missing", "cut off", "older"])
def test_best_weights_are_put_in_order(run, best):
    file = run.folder / "best.th"
    if best == "cut off":
        file.write_bytes(b"PK")
    elif best == "older":
        torch.save({"weight": torch.ones(3)}, file)
    state = run.checkpointer.load_checkpoint()
    assert state.trainer_state["best_model_filename"] == str(file)
    assert torch.load(file)["weight"][0] == 2


def test_best_weights_of_another_epoch_that_were_cut_off(run):
    state = run.trainer.get_checkpoint_state()
    state.trainer_state["metric_tracker"] |= {"is_best_so_far": False, "best_epoch": 0}
    run.trainer.get_checkpoint_state = lambda: state
    (run.folder / "best.th").write_bytes(b"PK")
    run.checkpointer.save_checkpoint(run.trainer)
    message = error_of(ConfigurationError, run.checkpointer.load_checkpoint)
    assert mentions(message, str(run.folder / "best.th"), "model_state_e1_b0.th")


@pytest.mark.parametrize("best_epoch", [1, 2])
def test_a_run_whose_folder_was_renamed(run, best_epoch):
    """The state of the run holds the old path of `best.th`."""
    state = run.trainer.get_checkpoint_state()
    state.trainer_state["metric_tracker"]["is_best_so_far"] = best_epoch == 2
    state.trainer_state["best_model_filename"] = "runs/of_old/best.th"
    run.trainer.get_checkpoint_state = lambda: state
    for path in run.folder.glob("*_e2_b0.th"):
        path.unlink()
    run.checkpointer.save_checkpoint(run.trainer)
    loaded = run.checkpointer.load_checkpoint()
    assert loaded.trainer_state["best_model_filename"] == str(run.folder / "best.th")


def test_a_folder_with_brackets_in_its_name(tmp_path):
    folder = tmp_path / "ner [v2] *?"
    folder.mkdir()
    trainer, checkpointer = Trainer(), SafeCheckpointer(folder, keep_most_recent_by_count=1)
    for trainer.epochs in (1, 2):
        checkpointer.save_checkpoint(trainer)
    names = {file.name for file in folder.iterdir()}
    assert names == {"model_state_e2_b0.th", "training_state_e2_b0.th"}
    assert checkpointer.load_checkpoint().model_state["weight"][0] == 2


def test_many_checkpoints_of_an_epoch(tmp_path):
    """The one after 5 batches is removed, not those after 50 and 55, whose names begin in the same way."""
    trainer, checkpointer = Trainer(), SafeCheckpointer(tmp_path, keep_most_recent_by_count=10)
    state = trainer.get_checkpoint_state()
    trainer.get_checkpoint_state = lambda: state
    for batches in range(5, 60, 5):
        state.trainer_state["batches_in_epoch_completed"] = batches
        checkpointer.save_checkpoint(trainer)
    names = {path.name for path in tmp_path.glob("model_state_*")}
    assert names == {f"model_state_e0_b{batches}.th" for batches in range(10, 60, 5)}


def test_without_validation_every_epoch_is_the_best(run):
    checkpoint = run.trainer.get_checkpoint_state()
    checkpoint.trainer_state["metric_tracker"]["best_so_far"] = None
    run.trainer.epochs = 3
    run.trainer.get_checkpoint_state = lambda: checkpoint
    run.checkpointer.save_checkpoint(run.trainer)
    torch.save({"weight": torch.ones(3)}, run.folder / "best.th")
    assert run.checkpointer.load_checkpoint().model_state["weight"][0] == 2
    assert torch.load(run.folder / "best.th")["weight"][0] == 2


class RenamedLinear(nn.Linear):
    """A layer whose weight has another name in its state dict, as in the biLM of the drop-in."""

    def __init__(self) -> None:
        super().__init__(3, 3)
        self.register_state_dict_post_hook(self._rename)
        self.register_load_state_dict_pre_hook(self._rename_back)

    @staticmethod
    def _rename(layer, state, prefix, *_):
        state[f"{prefix}kernel"] = state.pop(f"{prefix}weight").T

    @staticmethod
    def _rename_back(layer, state, prefix, *_):
        state[f"{prefix}weight"] = state.pop(f"{prefix}kernel").T


class AveragedTrainer(Trainer):
    """A trainer of a model with one module under two names, and a moving average."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        shared = RenamedLinear()
        self.model = nn.ModuleDict({"first": shared, "second": shared, "frozen": nn.Linear(2, 2)})
        self.model["frozen"].requires_grad_(False)
        trained = [(prefix + name, weight) for name, weight in self.model.named_parameters()]
        self._moving_average = ExponentialMovingAverage(trained[:2], decay=0.5)

    def train_an_epoch(self) -> None:
        with torch.no_grad():
            for parameter in self.model["first"].parameters():
                parameter += 1
        self._moving_average.apply()
        self.epochs += 1

    def get_checkpoint_state(self) -> TrainerCheckpoint:
        training = super().get_checkpoint_state().trainer_state
        return TrainerCheckpoint(
            self.model.state_dict(), training | {"moving_average": self._moving_average.state_dict()}
        )


@pytest.mark.parametrize("prefix", ["", "module."], ids=["one process", "distributed"])
def test_best_weights_are_those_of_the_moving_average(tmp_path, prefix):
    """Whatever names the average has for them: in a distributed run PyTorch adds a prefix."""
    trainer = AveragedTrainer(prefix)
    trainer.train_an_epoch()
    trained = copy.deepcopy(trainer.model.state_dict())
    SafeCheckpointer(tmp_path).save_checkpoint(trainer)
    loaded = SafeCheckpointer(tmp_path).load_checkpoint()
    best = torch.load(tmp_path / "best.th")
    assert loaded.model_state.keys() == best.keys() == trained.keys()
    assert all(torch.equal(loaded.model_state[name], trained[name]) for name in trained)
    expected = {name: value if "frozen" in name else value - 0.5 for name, value in trained.items()}
    assert all(torch.allclose(best[name], expected[name]) for name in expected)


@pytest.mark.parametrize("size", range(0, 80_000, 5000))
def test_a_full_disk(tmp_path, size):
    """A limit on the size of files stands for it, at many sizes."""
    trainer = Trainer()
    state = trainer.get_checkpoint_state()
    state.model_state.update({str(number): torch.ones(5000) for number in range(4)})
    trainer.get_checkpoint_state = lambda: state
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(OSError, match=r"model_state_e0_b0\.th") as caught:
            SafeCheckpointer(tmp_path).save_checkpoint(trainer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert not list(tmp_path.iterdir())
