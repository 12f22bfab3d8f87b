"""Changes of `compat/running.py` and `correctness.py`."""

import errno
import gzip
import io
import json
import os
import pickle
import random
import signal
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params, util
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.samplers import BucketBatchSampler
from allennlp.models.archival import load_archive
from allennlp.modules.token_embedders import embedding
from allennlp.nn import RegularizerApplicator
from allennlp.nn.regularizers import L2Regularizer
from allennlp.predictors import Predictor
from allennlp.training import GradientDescentTrainer, gradient_descent_trainer
from allennlp.training import util as training_util
from allennlp.training.callbacks.backward import MixedPrecisionBackwardCallback
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.moving_average import ExponentialMovingAverage

from elmo_tasks.data.input_files import InputError
from elmo_tasks.language_model.reader import BiLmReader
from elmo_tasks.ner.predictor import NerPredictor
from elmo_tasks.vectors.files import read_vectors
from tests.ner.archives import DEV

FORK = torch.multiprocessing.get_context("fork")


def test_a_scheduler_by_plateaus():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    parameters = {"type": "reduce_on_plateau", "mode": "max", "factor": 0.5, "patience": 0, "verbose": True}
    scheduler = LearningRateScheduler.from_params(Params(parameters), optimizer=optimizer)
    for metric in (0.3, 0.4, 0.4):
        scheduler.step(metric)
    assert optimizer.param_groups[0]["lr"] == 0.5


class Harmful:
    """Unpickling it would run code."""

    def __reduce__(self):
        return os.getcwd, ()


class TestCheckpoints:
    state = {  # noqa: RUF012
        "metric_tracker": {
            "best_so_far": numpy.float64(0.5),
            "is_best_so_far": numpy.float64(0.5) > numpy.float64(0.25),
        },
        "learning_rate_scheduler": {"base_values": [0.1], "metric": numpy.float64(0.25)},
    }

    def test_numpy_numbers_are_loaded(self, tmp_path):
        torch.save(self.state, tmp_path / "state.th")
        assert torch.load(tmp_path / "state.th") == self.state

    @pytest.mark.parametrize("harm", [Harmful(), numpy.array([Harmful()], dtype=object)])
    def test_code_is_refused(self, tmp_path, harm):
        torch.save({"x": harm}, tmp_path / "state.th")
        with pytest.raises(pickle.UnpicklingError):
            torch.load(tmp_path / "state.th")


def test_a_moving_average_goes_on():
    """With decay 1/2, of a parameter that is 0 before and 1 after resuming."""
    weight = torch.nn.Parameter(torch.zeros(1))
    before, after = (ExponentialMovingAverage([("weight", weight)], decay=0.5) for _ in range(2))
    buffer = io.BytesIO()
    torch.save(before.state_dict(), buffer)
    buffer.seek(0)
    after.load_state_dict(torch.load(buffer))
    weight.data.fill_(1.0)
    after.apply()
    after.assign_average_value()
    assert weight.item() == 0.5
    after.restore()
    assert weight.item() == 1.0


@pytest.fixture
def _lock_of_bars():
    lock = Tqdm.get_lock()
    yield
    Tqdm.set_lock(lock)


@pytest.mark.usefixtures("_lock_of_bars")
class TestLoaderProcesses:
    def test_spawned_ones_get_the_lock_of_the_progress_bars(self, capfd):
        loader = SimpleNamespace(num_workers=1, _instance_worker=print)
        spawn = torch.multiprocessing.get_context("spawn")
        (worker,), _ = MultiProcessDataLoader._start_instance_workers(loader, None, spawn)
        worker.join()
        assert worker.exitcode == 0
        assert "RLock" in capfd.readouterr().out

    @pytest.fixture
    def loader(self, tmp_path):
        (tmp_path / "text").write_text("a b c\n" * 1000)
        reader = BiLmReader(streams=1, bptt_steps=1, shuffle_buffer=0)
        loader = MultiProcessDataLoader(
            reader, str(tmp_path / "text"), batch_size=1, num_workers=1, max_instances_in_memory=1
        )
        loader.index_with(Vocabulary({"tokens": {"a": 1}}))
        return loader

    @pytest.mark.parametrize("kind", ["instance", "batch"])
    def test_end_at_sigterm(self, loader, kind):
        """A worker is forked from `allennlp`, whose handler raises an exception."""
        queue, handler = FORK.JoinableQueue(1), signal.getsignal(signal.SIGTERM)
        util.install_sigterm_handler()
        try:
            (worker,), channels = getattr(loader, f"_start_{kind}_workers")(queue, FORK)
        finally:
            signal.signal(signal.SIGTERM, handler)
        assert queue.get(timeout=60)
        worker.terminate()
        worker.join(10)
        exit_code = worker.exitcode
        worker.kill()
        worker.join()
        loader._join_workers([worker], queue, channels)
        assert exit_code == -signal.SIGTERM

    @pytest.mark.parametrize("kind", ["instance", "batch"])
    def test_end_with_a_run_that_is_killed(self, loader, kind):
        receiver, sender = FORK.Pipe(duplex=False)

        def run():
            queue = FORK.JoinableQueue(1)
            (worker,), _ = getattr(loader, f"_start_{kind}_workers")(queue, FORK)
            queue.get(timeout=60)
            sender.send(worker.pid)
            os.kill(os.getpid(), signal.SIGKILL)

        FORK.Process(target=run).start()
        sender.close()
        assert receiver.poll(60)
        worker = receiver.recv()
        # At the end of the pipe, since nobody can write to it any more
        ended = receiver.poll(10)
        if not ended:
            os.kill(worker, signal.SIGKILL)
        assert ended


@pytest.mark.usefixtures("_lock_of_bars")
def test_processes_that_make_batches_draw_by_the_seed():
    reader, path = DatasetReader.by_name("elmo_ner")(), str(DEV)
    vocabulary = Vocabulary.from_instances(reader.read(path))

    def epochs(seed: int) -> list[list[list[str]]]:
        random.seed(seed)
        sampler = BucketBatchSampler(batch_size=4)
        loader = MultiProcessDataLoader(
            reader, path, batch_sampler=sampler, num_workers=1, max_instances_in_memory=30
        )
        loader.index_with(vocabulary)
        return [[sentence.words for batch in loader for sentence in batch["metadata"]] for _ in range(2)]

    first, second = epochs(seed=1)
    assert [first, second] == epochs(seed=1)
    assert first != second
    assert first != epochs(seed=2)[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named():
    with pytest.raises(ConfigurationError, match="cuda_device"):
        GradientDescentTrainer.from_params(Params({"cuda_device": 0}))


def tagger(folder: Path, **trainer) -> Params:
    """Returns the config of a tagger of AllenNLP, whose data are written to the folder."""
    data = folder / "train.conll"
    data.write_text("John NNP B-NP I-PER\nsleeps VBZ B-VP O\n\n" * 4)
    tokens = {"type": "embedding", "embedding_dim": 2}
    return Params(
        {
            "dataset_reader": {"type": "conll2003"},
            "train_data_path": str(data),
            "validation_data_path": str(data),
            "model": {
                "type": "simple_tagger",
                "text_field_embedder": {"token_embedders": {"tokens": tokens}},
                "encoder": {"type": "lstm", "input_size": 2, "hidden_size": 2},
            },
            "data_loader": {"batch_size": 1},
            "trainer": {"cuda_device": -1, "optimizer": {"type": "sgd", "lr": 0.1}, **trainer},
        }
    )


def test_training_resumes_and_its_archive_loads(tmp_path):
    """With the scheduler whose state holds numpy's numbers, and a moving average."""
    config = tagger(
        tmp_path,
        num_epochs=2,
        learning_rate_scheduler={"type": "cosine", "t_initial": 2},
        moving_average={"decay": 0.5},
    )
    folder = str(tmp_path / "run")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", FutureWarning)
        trained = train_model(config.duplicate(), folder)
        resumed = train_model(config.duplicate(), folder, recover=True)
        loaded = load_archive(Path(folder, "model.tar.gz")).model
    assert not [warning for warning in seen if "torch.cuda.amp" in str(warning.message)]
    for name, value in trained.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value)
        torch.testing.assert_close(loaded.state_dict()[name], value)


def test_a_vocabulary_that_a_kill_has_cut_is_counted_again(tmp_path):
    """Where several processes train, each reads it from its files."""
    config = tagger(tmp_path, num_epochs=1)
    run, vocabulary = tmp_path / "run", tmp_path / "run/vocabulary"
    training_util.make_vocab_from_params(config.duplicate(), run)
    whole = {path.name: path.read_bytes() for path in vocabulary.glob("*.txt")}
    config["distributed"] = {"cuda_devices": [-1, -1]}
    config.to_file(str(run / "config.json"))
    (vocabulary / "tokens.txt").write_text("@@UNKNOWN@@")
    (vocabulary / "labels.txt").unlink()
    training_util.create_serialization_dir(config, run, recover=True, force=False)
    assert {path.name: path.read_bytes() for path in vocabulary.glob("*.txt")} == whole


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EOPNOTSUPP, "not supported")))
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("weights")
    gradient_descent_trainer.hardlink_or_copy(source, target)
    assert target.read_text() == "weights"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_loss_of_an_epoch_that_is_resumed_half_way(tmp_path):
    """It is that of the whole, with equal batches."""
    config = tagger(
        tmp_path,
        num_epochs=1,
        optimizer={"type": "sgd", "lr": 0.0},
        checkpointer={"save_every_num_batches": 1, "keep_most_recent_by_count": None},
    )
    losses, run = [], tmp_path / "run"
    for recover in (False, True):
        train_model(config.duplicate(), run, recover=recover)
        losses.append(json.loads((run / "metrics.json").read_text())["training_loss"])
        for name in ("e0_b3", "e0_b4", "e1_b0"):
            for path in run.glob(f"*_state_{name}.th"):
                path.unlink()
    assert losses[1] == pytest.approx(losses[0])


def test_data_without_a_batch(tmp_path):
    config = tagger(tmp_path, num_epochs=1)
    config["data_loader"] = {"batch_size": 5, "drop_last": True}
    with pytest.raises(ConfigurationError, match="batch_size"):
        train_model(config, tmp_path / "run")


def test_accumulated_gradients_of_mixed_precision(tmp_path):
    trainer = SimpleNamespace(
        _num_gradient_accumulation_steps=4, _scaler=SimpleNamespace(scale=lambda loss: 8 * loss)
    )

    weight = torch.ones(1, requires_grad=True)
    callback = MixedPrecisionBackwardCallback(str(tmp_path))
    assert callback.on_backward(trainer, {"loss": 3 * weight.sum()}, False)
    assert weight.grad.item() == 6


def test_a_regularizer_without_parameters_is_warned_of(caplog):
    applicator = RegularizerApplicator([("weight", L2Regularizer(1.0)), ("scalar_par", L2Regularizer(1.0))])
    module = torch.nn.Linear(1, 1)
    for _ in range(2):
        assert applicator(module) == module.weight.square().sum()
    (record,) = caplog.records
    assert "'scalar_par'" in record.message


def test_the_predictor_of_a_model_from_an_archive(trained_ner, tmp_path):
    """Whose vocabulary has grown: of words and of characters."""
    archive = str(trained_ner / "model.tar.gz")
    (tmp_path / "new.conll").write_text("Ωmega NNP B-NP B-PER\nflew VBD B-VP O\n", encoding="utf-8")
    config = Params.from_file(str(trained_ner / "config.json")).as_dict(quiet=True)
    config["model"] = {"type": "from_archive", "archive_file": archive}
    config["train_data_path"] = config["validation_data_path"] = [DEV, str(tmp_path / "new.conll")]
    config["trainer"] |= {"num_epochs": 1, "grad_norm": None}
    train_model(Params(config), str(tmp_path / "run"), file_friendly_logging=True)
    predictor = Predictor.from_path(str(tmp_path / "run/model.tar.gz"), import_plugins=False)
    assert isinstance(predictor, NerPredictor)
    assert predictor.predict("Ωmega flew .")["tokens"] == ["Ωmega", "flew", "."]


class TestVectors:
    VECTORS = (("the", [1, 0.25]), ("cat", [-2, 1 / 3]))
    NUMBERS = numpy.float32([vector for _, vector in VECTORS])
    TABS = "".join(f"{word}\t{one}\t{two}\n" for word, (one, two) in VECTORS).encode()
    TAB_AND_BLANKS = "".join(f"{word}\t{one} {two}\n" for word, (one, two) in VECTORS).encode()
    BINARY = b"2 2\n" + b"".join(
        word.encode() + b" " + numpy.float32(vector).tobytes() + b"\n" for word, vector in VECTORS
    )
    VOCABULARY = Vocabulary(counter={"tokens": {"cat": 3, "the": 1}})

    @pytest.mark.parametrize("content", [TABS, TAB_AND_BLANKS, BINARY, BINARY.replace(b"\ncat", b"cat")])
    @pytest.mark.parametrize("name", ["v.txt.gz", "(v.zip)#in/v"])
    def test_vectors_of_all_kinds(self, tmp_path, content, name):
        if "zip" in name:
            with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
                archive.writestr("in/v", content)
        else:
            (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        path = name.replace("v.", f"{tmp_path}/v.")
        table = embedding._read_pretrained_embeddings_file(path, 2, self.VOCABULARY)
        rows = [self.VOCABULARY.get_token_index(word) for word, _ in self.VECTORS]
        assert table[rows].tolist() == self.NUMBERS.tolist()
        words, numbers = read_vectors(path)
        assert words == ["the", "cat"]
        assert numbers.tolist() == self.NUMBERS.tolist()
        options = {"pretrained_files": {"tokens": path}, "min_pretrained_embeddings": {"tokens": -1}}
        vocabulary = Vocabulary(counter={"tokens": {}}, **options)
        assert list(vocabulary.get_token_to_index_vocabulary())[2:] == ["the", "cat"]

    @pytest.mark.parametrize(
        ("content", "message"),
        [(BINARY[:-5], "v: "), (b"the 1 2\ncaf\xe9 1 2\n", "v, line 2: the byte 0xe9"), (None, "2 files")],
    )
    def test_errors_name_the_file(self, tmp_path, content, message):
        (tmp_path / "v").write_bytes(content or b"a 1 2\n")
        (tmp_path / "w").write_bytes(b"a 1 2\n")
        path = str(tmp_path / ("v" if content else "?"))
        with pytest.raises(InputError, match=message):
            embedding._read_pretrained_embeddings_file(path, 2, self.VOCABULARY)
