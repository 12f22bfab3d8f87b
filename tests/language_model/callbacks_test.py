import csv
import json
import logging
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.training import TrainerCallback

from elmo_tasks.common.files import bundled
from elmo_tasks.language_model import callbacks
from elmo_tasks.language_model.callbacks import ProgressCallback, SoftmaxFirst
from elmo_tasks.language_model.metric import DIRECTIONS
from elmo_tasks.language_model.model import BiLmModel
from elmo_tasks.language_model.softmax import Softmax
from tests.elmo.files import read_bilm
from tests.errors import mentions
from tests.language_model.archives import READER, TEXT, write_run

# A batch of 50 steps, as two inputs whose gradients are accumulated
INPUTS = [{"block": {"inputs": torch.zeros(2, steps)}} for steps in (20, 30)]


@pytest.fixture
def clock(monkeypatch):
    """The clock of the callbacks."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def model(tmp_path):
    return write_run(tmp_path / "run").train()


@pytest.fixture(autouse=True)
def _log_everything(caplog):
    caplog.set_level(logging.INFO)


class ProgressRun:
    """A trainer as the callback sees it: five batches an epoch, 2 s each, and an evaluation of 10 s."""

    def __init__(self, clock, *, length=10, world_size=1, skipped=0, **options) -> None:
        self.clock = clock
        self.callback = ProgressCallback("folder", **options)
        self.trainer = SimpleNamespace(
            model=Mock(spec=BiLmModel),
            data_loader=[()] * length if length else iter(()),
            _num_gradient_accumulation_steps=2,
            _num_epochs=3,
            _world_size=world_size,
            _batches_in_epoch_completed=0,
        )
        self.skipped = skipped
        self.callback.on_start(self.trainer)

    def epoch(self, epoch: int, is_primary: bool = True) -> dict:
        for batch in range(1, 6):
            self.clock.now += 2
            self.trainer._batches_in_epoch_completed = batch
            if batch > self.skipped:
                self.batch(epoch, batch, is_training=True, is_primary=is_primary)
        self.skipped = 0
        self.clock.now += 10
        self.batch(epoch, 1, is_training=False, is_primary=is_primary)
        metrics: dict = {}
        self.callback.on_epoch(self.trainer, metrics, epoch, is_primary=is_primary)
        return metrics

    def batch(self, epoch: int, batch: int, **options: bool) -> None:
        self.callback.on_batch(self.trainer, INPUTS, [], {}, epoch, batch, **options)


def lines(caplog) -> list[str]:
    logged = [record.getMessage() for record in caplog.records if record.name == callbacks.__name__]
    caplog.clear()
    return logged


def test_speed_and_time_left(clock, caplog):
    run = ProgressRun(clock, every_seconds=4)
    assert run.epoch(0) == {"training_tokens_per_second": 25.0}
    # 12 batches of 2 s are left, and then 10.
    assert lines(caplog) == [
        "epoch 1 of 3, 60%: 25 tokens/s, 24 s left",
        "epoch 1 of 3, 100%: 25 tokens/s, 20 s left",
    ]
    run.epoch(1)
    # Six batches took 22 s with the evaluation, which the speed leaves out; eight took 26 s.
    assert lines(caplog) == [
        f"epoch 2 of 3, 40%: 25 tokens/s, {8 * 22 / 6:.0f} s left",
        f"epoch 2 of 3, 80%: 25 tokens/s, {6 * 26 / 8:.0f} s left",
    ]


@pytest.mark.parametrize(("blocks", "level"), [(1, logging.WARNING), (3, logging.INFO)])
def test_the_share_of_the_text(tmp_path, caplog, blocks, level):
    (tmp_path / "text").write_text(TEXT)
    reader = DatasetReader.from_params(Params(dict(READER)))
    vocab = Vocabulary.from_instances(reader.read(str(tmp_path / "text")))
    trainer = SimpleNamespace(
        model=Mock(spec=BiLmModel, vocab=vocab),
        data_loader=MultiProcessDataLoader(
            reader, "text", batch_size=1, max_instances_in_memory=1, batches_per_epoch=blocks
        ),
        _num_gradient_accumulation_steps=1,
        _num_epochs=3,
        _world_size=1,
    )
    ProgressCallback("folder").on_start(trainer)
    (record,) = (record for record in caplog.records if record.name == callbacks.__name__)
    assert record.levelno == level
    assert mentions(record.getMessage(), f"{18 * blocks} tokens", f"{50 * blocks}% of the text", "6 blocks")


@pytest.mark.parametrize("content", [None, "\n \n"])
def test_texts_that_cannot_be_read_are_found_at_the_start(tmp_path, model, content):
    if content is not None:
        (tmp_path / "text").write_text(content)
    block = {"type": "elmo_text_perplexities", "texts": {"a": str(tmp_path / "text")}, "reader": dict(READER)}
    callback = TrainerCallback.from_params(Params(block), serialization_dir=str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"{tmp_path / 'text'}: "):
        callback.on_start(SimpleNamespace(model=model))


def test_speed_of_a_resumed_run_and_of_several_workers(clock, caplog, capsys):
    """
    The time before is not counted; the tokens of all workers are, and one reports them: on the terminal where
    the log is silent.
    """
    run = ProgressRun(clock, skipped=2, every_seconds=3)
    clock.now += 1000
    assert run.epoch(1) == {"training_tokens_per_second": 25.0}
    assert lines(caplog) == ["epoch 2 of 3, 100%: 25 tokens/s, 10 s left"]
    assert ProgressRun(clock, world_size=4).epoch(0) == {"training_tokens_per_second": 100.0}
    assert ProgressRun(clock, every_seconds=0).epoch(0, is_primary=False) == {}
    assert not lines(caplog)
    caplog.set_level(logging.WARNING)
    ProgressRun(clock, every_seconds=8).epoch(0)
    assert capsys.readouterr().err == "epoch 1 of 3, 100%: 25 tokens/s, 20 s left\n"


TEXTS = {"one": TEXT, "another": "The cat .\n"}


class PerplexityRun:
    """A trainer as the callback sees it: two batches of 50 steps an epoch, in 10 s."""

    def __init__(self, folder, model, clock, *, state=None, world_size=1):
        self.clock, self.file = clock, folder / callbacks.FILE_NAME
        for name, text in TEXTS.items():
            (folder / name).write_text(text, encoding="utf-8")
        params = {
            "type": "elmo_text_perplexities",
            "texts": {name: str(folder / name) for name in TEXTS},
            "reader": dict(READER),
        }
        self.callback = TrainerCallback.from_params(Params(params), serialization_dir=str(folder))
        self.trainer = SimpleNamespace(model=model, cuda_device=torch.device("cpu"), _world_size=world_size)
        if state is not None:
            self.callback.load_state_dict(state)
        self.callback.on_start(self.trainer)

    def epoch(self, number, is_primary=True):
        for batch in range(2):
            self.clock.now += 5
            self.callback.on_batch(self.trainer, INPUTS, [], {}, number, batch, is_training=True)
        self.callback.on_batch(self.trainer, INPUTS, [], {}, number, 0, is_training=False)
        self.callback.on_epoch(self.trainer, metrics={}, epoch=number, is_primary=is_primary)

    def rows(self):
        with open(self.file, newline="") as file:
            return list(csv.DictReader(file))


def progress(row):
    return [int(row[name]) for name in ("epoch", "batches", "tokens", "seconds")]


def test_a_row_for_each_text_after_each_epoch(tmp_path, model, clock):
    run = PerplexityRun(tmp_path, model, clock)
    run.epoch(0)
    run.epoch(1)
    rows = run.rows()
    assert [row["text"] for row in rows] == list(TEXTS) * 2
    assert [progress(row) for row in rows[::2]] == [[1, 2, 100, 10], [2, 4, 200, 20]]
    # The weights are still the same; training continues, and its metrics count no text.
    assert [rows[0][name] for name in DIRECTIONS] == [rows[2][name] for name in DIRECTIONS]
    assert model.training
    assert model.eval().get_metrics() == {}
    reader = DatasetReader.from_params(Params(dict(READER)))
    for row in rows[:2]:
        for instance in reader.read(str(tmp_path / row["text"])):
            instance.index_fields(model.vocab)
            model(**instance.as_tensor_dict())
        metrics = model.get_metrics(reset=True)
        for name in DIRECTIONS:
            assert float(row[name]) == pytest.approx(metrics[f"perplexity_{name}"], abs=1e-3)


def test_a_resumed_run_continues_the_count(tmp_path, model, clock):
    """Rows of batches that are trained once more are removed."""
    run = PerplexityRun(tmp_path, model, clock)
    run.epoch(0)
    state = run.callback.state_dict()
    run.epoch(1)
    rows = run.rows()
    resumed = PerplexityRun(tmp_path, model, clock, state=state)
    assert resumed.rows() == rows[:2]
    resumed.epoch(1)
    assert resumed.rows() == rows
    # The tokens of all workers are counted, and one writes.
    workers = PerplexityRun(tmp_path, model, clock, world_size=3)
    assert workers.rows() == []
    workers.epoch(0)
    assert progress(workers.rows()[0]) == [1, 2, 300, 10]
    workers.epoch(1, is_primary=False)
    assert len(workers.rows()) == len(TEXTS)


FINETUNE = bundled("training_configs/bilm_finetune.jsonnet").resolve()
FIXTURE = read_bilm(bundled("fixtures/elmo/options.json"), bundled("fixtures/elmo/weights.safetensors"))


@pytest.mark.slow
def test_config_trains_the_new_softmax_first(tmp_path, monkeypatch):
    """One epoch each; to the same weights if the run is killed in both of them, and resumed."""
    overrides = {"data_loader.batches_per_epoch": 3, "validation_data_loader.batches_per_epoch": 3}
    fixture = bundled("fixtures/elmo").resolve()
    config = tmp_path / "config.jsonnet"
    config.write_text(
        f"""(import '{FINETUNE}') + {{
            options_file:: '{fixture}/options.json',
            weight_file:: '{fixture}/weights.safetensors',
            words_file:: null,
        }}"""
    )
    graphs = []
    stop = None
    loss = Softmax.loss

    def spy(self, vectors, *more):
        if len(graphs) == stop:
            raise KeyboardInterrupt
        graphs.append(vectors.requires_grad)
        return loss(self, vectors, *more)

    def train(name, **options):
        graphs.clear()
        params = Params.from_file(str(config), json.dumps(overrides))
        return train_model(params, str(tmp_path / name), **options)

    monkeypatch.setattr(Softmax, "loss", spy)
    model = train("run")
    assert graphs == [False] * 3 + [True] * 3
    after_first = torch.load(tmp_path / "run/model_state_e1_b0.th")
    for name, weight in FIXTURE.named_parameters():
        assert torch.equal(after_first[f"bilm.{name}"], weight)
        assert not torch.equal(model.bilm.get_parameter(name), weight)

    for stop, expected in [(2, [False] * 2), (4, [False] * 3 + [True])]:
        with pytest.raises(KeyboardInterrupt):
            train("killed", recover=stop > 2)
        assert graphs == expected
    stop = None
    resumed = train("killed", recover=True)
    assert graphs == [True] * 3
    for one, other in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def trained_weights(model):
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


@pytest.fixture
def with_new_softmax(model):
    model.softmax_is_new = True
    # A weight that the user has frozen
    model.bilm.token_encoder.embedding.requires_grad_(False)
    return model


@pytest.mark.parametrize(("is_new", "options"), [(False, {}), (True, {"epochs": 0}), (True, {"done": 1})])
def test_nothing_is_frozen(with_new_softmax, is_new, options, caplog):
    """The softmax is trained already, no epoch is left for it, or a run is resumed after its epochs."""
    with_new_softmax.softmax_is_new = is_new
    expected = trained_weights(with_new_softmax)
    callback = SoftmaxFirst(serialization_dir="folder", epochs=options.get("epochs", 1))
    trainer = SimpleNamespace(model=with_new_softmax, _start_after_epochs_completed=options.get("done", 0))
    callback.on_start(trainer)
    assert trained_weights(with_new_softmax) == expected
    warned = any(record.levelname == "WARNING" for record in caplog.records)
    assert warned == ("epochs" in options)
