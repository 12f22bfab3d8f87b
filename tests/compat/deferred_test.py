"""What AllenNLP imports and does not need at once."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import nltk
import pytest
import torch
import transformers
from allennlp.data.data_loaders import data_collator
from allennlp.modules.transformer import ActivationLayer
from allennlp.training.metrics import Auc, SpearmanCorrelation, auc
from allennlp.training.optimizers import Optimizer
from allennlp_models.structured_prediction.predictors import constituency_parser, util
from nltk import Tree
from spacy import symbols
from torch import tensor
from torch.nn import functional as F

from elmo_tasks import compat  # noqa: F401  its folder is on the path

deferred = pytest.importorskip("_elmo_tasks_deferred")
imports = pytest.importorskip("_elmo_tasks_imports")

HEAVY = (
    *("cached_path", "conllu", "ftfy", "huggingface_hub", "nltk", "regex", "scipy.stats", "sklearn", "spacy"),
    *("sympy", "tensorboardX", "torch.distributed.tensor", "transformers"),
)
SCRIPT = f"""
import gc, json, sys
frozen = gc.get_freeze_count()
from allennlp.common.plugins import import_plugins
import_plugins()
assert gc.isenabled() and gc.get_freeze_count() == frozen
found = [name for name in {HEAVY} if name in sys.modules]
from allennlp.models import Model
print(json.dumps([Model.by_name("srl_bert").__name__, *found]))
"""


def test_the_plugins_come_without_what_takes_seconds():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["SrlBert"]


def test_what_waits_is_what_the_module_imports():
    for name, packages in imports.DEFERRED.items():
        module = importlib.import_module(name)
        for statement in ast.parse(Path(module.__file__).read_text()).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                names: dict = {}
                if any(f" {package}" in ast.unparse(statement) for package in packages):
                    exec(ast.unparse(statement), names)
                for variable in names.keys() - {"__builtins__"}:
                    assert vars(module)[variable]._target is names[variable], (name, variable)


def test_a_class_derived_from_what_waits():
    for name, base in ("huggingface_adamw", "AdamW"), ("huggingface_adafactor", "Adafactor"):
        for _ in range(2):
            weight = torch.nn.Parameter(tensor([1.0]))
            optimizer = Optimizer.by_name(name)(model_parameters=[("weight", weight)])
            weight.grad = tensor([1.0])
            optimizer.step()
            assert 0.9 < weight.item() < 1.0
        assert type(optimizer).__bases__ == (Optimizer, getattr(transformers, base))


def test_a_tool_that_one_of_them_imports():
    assert constituency_parser.LINK_TO_LABEL.keys() == util.TAG_MAP.keys()
    assert util.TAG_MAP["."] == {symbols.POS: symbols.PUNCT, "PunctType": "peri"}


def test_metrics_and_layers_are_what_they_were():
    assert isinstance(auc.metrics, deferred.Deferred)
    spearman, area = SpearmanCorrelation(), Auc()
    spearman(tensor([1.0, 2.0, 3.0]), tensor([1.0, 3.0, 2.0]))
    area(tensor([0.1, 0.9]), tensor([0, 1]))
    assert spearman.get_metric() == pytest.approx(0.5)
    assert area.get_metric() == 1.0
    layer = ActivationLayer(2, 3, "gelu")
    x = tensor([[1.0, -1.0]])
    assert layer(x).equal(F.gelu(layer.dense(x)))


def test_an_argument_that_is_wrong_is_the_error_of_the_real_one():
    with pytest.raises(TypeError, match="tokenizer"):
        data_collator.DataCollatorForLanguageModeling()


def test_instances_and_repr():
    tree = deferred.Deferred("nltk").Tree
    assert isinstance(Tree("S", []), tree)
    assert not isinstance("S", tree)
    assert repr(tree) == "<nltk.Tree, imported at its first use>"
    assert not hasattr(tree, "__wrapped__")
    assert not isinstance("S", deferred.Deferred("no_such_package").Tree)
    assert deferred.Deferred("nltk").__version__ == nltk.__version__


def test_what_is_missing_is_looked_for_once():
    load, seen = imports._defer(()), []
    finder = type("Finder", (), {"find_spec": staticmethod(lambda name, *_: seen.append(name))})
    sys.meta_path.insert(0, finder)
    try:
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="no_such_package"):
                load("no_such_package")
    finally:
        sys.meta_path.remove(finder)
    assert seen == ["no_such_package"]


def test_a_tool_is_executed_when_it_is_used():
    module = ModuleType("tool")
    deferred.postpone(module, lambda tool: vars(tool).update(answer=42))
    assert not hasattr(module, "__path__")
    assert "answer" not in vars(module)
    assert module.answer == 42
    with pytest.raises(AttributeError):
        module.question  # noqa: B018
