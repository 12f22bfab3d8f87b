"""
AllenNLP without our changes, where it meets a PyTorch, a Python or a transformers that it does not know. If a
row fails, its change is needed no longer. Faults of AllenNLP itself stay: 2.10.1 is its last version.
"""

import importlib.util
import io
import sys
from pickle import UnpicklingError
from types import ModuleType, SimpleNamespace

import numpy
import pytest
import torch
import transformers
from allennlp.common import cached_transformers
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.training.learning_rate_schedulers import LearningRateScheduler


def stock(module: ModuleType) -> ModuleType:
    """Returns the module as AllenNLP has it, executed once more beside the repaired one."""
    spec = importlib.util.find_spec(module.__name__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    return again


def reduce_on_plateau(folder) -> None:
    cls = LearningRateScheduler.by_name("reduce_on_plateau")
    cls.__init__.__wrapped__(SimpleNamespace(), torch.optim.SGD([torch.nn.Parameter()], lr=1.0))


def numpy_numbers_in_checkpoints(folder) -> None:
    torch.save(numpy.float64(0.5), file := io.BytesIO())
    file.seek(0)
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        torch.load(file)
    finally:
        torch.serialization.add_safe_globals(allowed)


def spawned_loader_processes(folder) -> None:
    if sys.version_info < (3, 11, 5) or torch.multiprocessing.get_start_method() != "fork":
        pytest.skip("it fails where Python checks, and forks by default")
    loader, spawn = (
        SimpleNamespace(num_workers=1, _instance_worker=print),
        torch.multiprocessing.get_context("spawn"),
    )
    MultiProcessDataLoader._start_instance_workers.__wrapped__(loader, None, spawn)


def pretrained_transformers(folder) -> None:
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]")
    transformers.BertConfig(vocab_size=5).save_pretrained(folder)
    cached_transformers.get_tokenizer.__wrapped__(str(folder), add_special_tokens=False)


@pytest.mark.parametrize(
    ("program", "error", "says"),
    [
        (reduce_on_plateau, TypeError, "verbose"),
        (numpy_numbers_in_checkpoints, UnpicklingError, "numpy"),
        (spawned_loader_processes, RuntimeError, "fork context"),
        (pretrained_transformers, AttributeError, "add_special_tokens"),
    ],
)
def test_stock_fails(program, error, says, tmp_path):
    with pytest.raises(error, match=says):
        program(tmp_path)
