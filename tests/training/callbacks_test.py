import copy
import random
from types import SimpleNamespace

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.samplers import BucketBatchSampler
from allennlp.training import TrainerCallback
from torch import nn

from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import Elmo
from elmo_tasks.training import callbacks
from elmo_tasks.training.callbacks import RepeatableCallback
from elmo_tasks.training.sampling import ElmoBucketSampler
from tests.elmo.files import SENTENCES, changed
from tests.elmo.files import batch as ids_of

BUCKETS = {"batch_sampler": BucketBatchSampler(batch_size=4)}


def trainer_of(model: nn.Module, *, stop: bool = False, loader: DataLoader | None = None) -> SimpleNamespace:
    """A trainer as far as the callback uses it; three of its ten epochs are done."""
    return SimpleNamespace(
        model=model,
        data_loader=loader,
        _validation_data_loader=None,
        _validation_loss=None,
        _metric_tracker=SimpleNamespace(should_stop_early=lambda: stop),
        _start_after_epochs_completed=3,
        _num_epochs=10,
    )


class Run:
    """A trainer and a model as far as the callback uses them."""

    def __init__(self, seed: int = 7, state: dict | None = None) -> None:
        self.callback = RepeatableCallback("folder")
        if state is not None:
            self.callback.load_state_dict(state)
        self.model = nn.Dropout(0.5).train()
        torch.manual_seed(seed)
        self.callback.on_start(trainer_of(self.model))
        # Another callback draws random numbers, too.
        torch.rand(random.randrange(10))

    def batches(self, epoch: int, start: int, stop: int, accumulated: int = 1) -> list[str]:
        """Returns the dropout masks of some batches."""
        masks = []
        for batch in range(start, stop):
            masks += [str(self.model(torch.ones(99))) for _ in range(accumulated)]
            self.callback.on_batch(None, [], [], {}, epoch, batch + 1, is_training=True)
        return masks

    def evaluate(self) -> None:
        self.model.eval()(torch.ones(99))
        torch.rand(random.randrange(10))
        self.callback.on_batch(None, [], [], {}, 0, 1, is_training=False)
        self.model.train()


def whole_run(**options):
    run = Run(**options)
    first = run.batches(0, 0, 4)
    run.evaluate()
    run.callback.on_epoch(None, {}, 0)
    return first, run.batches(1, 0, 4)


def test_all_masks_differ():
    first, second = whole_run()
    other, _ = whole_run(seed=8)
    accumulated = Run().batches(2, 0, 2, accumulated=2)
    masks = [*first, *second, *other, *accumulated[1:]]
    assert len(set(masks)) == len(masks)


def test_the_state_of_a_stateful_elmo_continues(tmp_path):
    torch.manual_seed(3)
    elmo = Elmo(options_file=changed(), weight_file=None, stateful=True)
    again = copy.deepcopy(elmo)
    trainer = trainer_of(nn.ModuleDict({"elmo": elmo}))
    callback = RepeatableCallback("folder")
    callback.on_start(trainer)
    elmo(ids_of(SENTENCES[:2]))
    torch.save(callback.state_dict(), tmp_path / "state.th")
    expected = elmo(ids_of(SENTENCES[3:])).input

    resumed = RepeatableCallback("folder")
    resumed.load_state_dict(torch.load(tmp_path / "state.th", weights_only=True))
    resumed.on_start(trainer_of(nn.ModuleDict({"elmo": again})))
    assert torch.equal(again(ids_of(SENTENCES[3:])).input, expected)


def test_the_state_of_another_process_is_refused(monkeypatch):
    """For instance, of a checkpoint that holds only the state of the first process."""
    elmo = Elmo(options_file=changed(), weight_file=None, stateful=True)
    callback = RepeatableCallback("folder")
    callback.on_start(trainer_of(nn.ModuleDict({"elmo": elmo})))
    elmo(ids_of(SENTENCES[:2]))
    state = callback.state_dict()
    monkeypatch.setattr(callbacks, "is_distributed", lambda: True)
    monkeypatch.setattr(callbacks.dist, "get_rank", lambda: 1)
    monkeypatch.setattr(callbacks.dist, "get_world_size", lambda: 2)
    resumed = RepeatableCallback("folder")
    for saved_by in ((0, 1), (0, 2), None):
        resumed.load_state_dict(state | {"process": saved_by})
        with pytest.raises(ConfigurationError, match="process 1 of 2"):
            resumed.on_start(trainer_of(nn.ModuleDict({"elmo": copy.deepcopy(elmo)})))
    resumed.load_state_dict(state | {"process": (1, 2)})
    resumed.on_start(trainer_of(nn.ModuleDict({"elmo": copy.deepcopy(elmo)})))


def test_metrics_of_a_run_with_nothing_left_to_train():
    """In AllenNLP's order: the epoch's metrics first, then the best ones."""
    last_epoch = {"best_epoch": 1, "epoch": 2, "training_loss": 0.5, "validation_loss": 0.25}
    killed = Run()
    killed.callback.on_epoch(None, last_epoch, 2)
    resumed = Run(state=killed.callback.state_dict())
    metrics = {"best_epoch": 1}
    resumed.callback.on_end(None, metrics=metrics, epoch=2)
    assert metrics == last_epoch
    next_epoch = {"best_epoch": 1, "epoch": 3}
    Run(state=killed.callback.state_dict()).callback.on_end(None, metrics=next_epoch, epoch=3)
    assert next_epoch == {"best_epoch": 1, "epoch": 3}


def test_metrics_that_only_an_earlier_epoch_has_stay():
    """For instance, of a label that was predicted once: AllenNLP keeps it in all later epochs."""
    killed = Run()
    killed.callback.on_epoch(None, {"epoch": 0, "validation_f1-ARG3": 0.0}, 0)
    metrics = {"epoch": 1}
    Run(state=killed.callback.state_dict()).callback.on_epoch(None, metrics, 1)
    assert metrics == {"epoch": 1, "validation_f1-ARG3": 0.0}


@pytest.mark.parametrize(("stop", "epochs"), [(True, 3), (False, 10)])
def test_a_run_that_stopped_early_trains_no_more(stop, epochs):
    trainer = trainer_of(nn.Dropout(0.5), stop=stop)
    callback = RepeatableCallback("folder")
    callback.on_start(trainer)
    callback.on_end(trainer)
    assert trainer._num_epochs == epochs


@pytest.mark.parametrize("shuffled", [{"batch_size": 4, "shuffle": True}, BUCKETS], ids=["loader", "sampler"])
def test_validations_that_a_resumed_run_does_not_repeat(shuffled):
    reader = DatasetReader.by_name("elmo_ner")()
    paths = [str(bundled(f"fixtures/ner/{part}.conll")) for part in ("train", "dev")]
    vocabulary = Vocabulary.from_instances(reader.read(paths[0]))

    def order(loader: DataLoader) -> list[list[str]]:
        return [sentence.words for batch in loader for sentence in batch["metadata"]]

    def second_epoch(validated_before: bool) -> list[list[list[str]]]:
        random.seed(5)
        training, validation = (MultiProcessDataLoader(reader, path, **shuffled) for path in paths)
        for loader in (training, validation):
            loader.index_with(vocabulary)
        trainer = trainer_of(nn.Linear(1, 1), loader=training)
        trainer._validation_data_loader = validation
        trainer._validation_loss = lambda epoch: order(validation)
        RepeatableCallback("folder").on_start(trainer)
        order(training)
        if validated_before:
            trainer._validation_loss(0)
        return [order(training), trainer._validation_loss(1)]

    assert second_epoch(validated_before=True) == second_epoch(validated_before=False)


def test_data_loaders_that_cannot_be_repeated(monkeypatch, caplog):
    reader = DatasetReader.by_name("elmo_ner")()
    path = str(bundled("fixtures/ner/dev.conll"))
    two_workers = MultiProcessDataLoader(reader, path, batch_size=4, num_workers=2)
    RepeatableCallback("folder").on_start(trainer_of(nn.Linear(1, 1), loader=two_workers))
    assert "data_loader.num_workers is 2" in caplog.text
    in_parts = MultiProcessDataLoader(
        reader, path, batch_sampler=ElmoBucketSampler(batch_size=4), max_instances_in_memory=8
    )
    caplog.clear()
    RepeatableCallback("folder").on_start(trainer_of(nn.Linear(1, 1), loader=in_parts))
    assert not caplog.text
    monkeypatch.setattr(callbacks, "is_distributed", lambda: True)
    with pytest.raises(ConfigurationError, match="max_instances_in_memory"):
        RepeatableCallback("folder").on_start(trainer_of(nn.Linear(1, 1), loader=in_parts))


@pytest.mark.parametrize(("workers", "share"), [(1, 16), (2, 8), (3, 5), (16, 1), (40, 1)])
def test_each_worker_has_its_share_of_the_cores(monkeypatch, workers, share):
    threads = [16]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(callbacks, "is_distributed", lambda: True)
    monkeypatch.setenv("ALLENNLP_PROCS_PER_NODE", str(workers))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    callback = TrainerCallback.from_params(Params({"type": "elmo_share_cores"}), serialization_dir="folder")
    callback.on_start(SimpleNamespace(cuda_device=torch.device("cpu")))
    assert threads[-1] == share
