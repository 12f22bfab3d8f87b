"""Imports of AllenNLP: without packages that are not installed, later for slow ones, and with our plug-in."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
import transformers
from allennlp.common.checks import ConfigurationError
from allennlp.training.optimizers import Optimizer
from torch import tensor

import elmo_tasks
from tests.errors import error_of, mentions

deferred = pytest.importorskip("_elmo_tasks_imports")

PROJECT = Path(elmo_tasks.__file__).parents[1]
PLACEHOLDERS = PROJECT / "elmo_tasks" / "compat" / "placeholders"
SITE_PACKAGES = Path(torch.__file__).parents[1]
ALLENNLP = Path(sysconfig.get_path("scripts"), "allennlp")

IMPORTS = """
# every import that AllenNLP makes
import torchvision
import torchvision.ops.boxes as box_ops
from fairscale.nn import FullyShardedDataParallel
from fairscale.nn.checkpoint import checkpoint_wrapper
from fairscale.nn.misc import FlattenParamsWrapper
from fairscale.nn.wrap import enable_wrap, wrap
from fairscale.optim.grad_scaler import GradScaler

def missing():
    import no_such_module_at_all
"""
USE = """
import inspect
from allennlp.data.image_loader import *
from allennlp.data.image_loader import missing

class Sharded(FullyShardedDataParallel, dict):
    pass

def refusal(use):
    try:
        use()
    except ImportError as error:
        return str(error)
    raise AssertionError(f"not refused: {inspect.getsource(use)}")

for use in (
    lambda: torchvision.io.read_image("x.png"),
    lambda: torchvision.models.detection,
    lambda: box_ops.clip_boxes_to_image(1, 2),
):
    assert "pip install torchvision" in refusal(use)
for use in (lambda: FullyShardedDataParallel(None), lambda: Sharded(), lambda: wrap(None)):
    assert "pip install fairscale" in refusal(use)

assert refusal(missing) == "No module named 'no_such_module_at_all'"
assert not isinstance(3, FlattenParamsWrapper)

# what tools probe for
assert not hasattr(torchvision, "__wrapped__") and not hasattr(GradScaler, "__wrapped__")
inspect.getmodule(GradScaler)
inspect.getmembers(GradScaler)
inspect.getdoc(torchvision)
"""
NOT_INSTALLED = """
import importlib.util
for name in ("torchvision", "fairscale"):
    assert name not in sys.modules and importlib.util.find_spec(name) is None, name
"""
HEAVY = (
    *("cached_path", "conllu", "ftfy", "huggingface_hub", "nltk", "regex", "scipy.stats", "sklearn", "spacy"),
    *("sympy", "tensorboardX", "torch.distributed.tensor", "transformers"),
)
PLUGINS = f"""
import gc, json, sys
frozen = gc.get_freeze_count()
from allennlp.common.plugins import import_plugins
import_plugins()
assert gc.isenabled() and gc.get_freeze_count() == frozen
found = [name for name in {HEAVY} if name in sys.modules]
from allennlp.models import Model
print(json.dumps([Model.by_name("srl_bert").__name__, *found]))
"""
AT_ONCE = "\nimport os\nsys.stdout.flush()\nos._exit(0)"
"""Ends a script. To unload PyTorch would take a second."""
# Runs in the command's process before anything else does.
SITECUSTOMIZE = """
import atexit, gc, os, socket, sys

def report(line):
    with open(os.environ["REPORT"], "a") as file:
        print(line, file=file)

def refuse(*args, **kwargs):
    report(f"network: {args}")
    raise OSError("no network")

def watch(event, arguments):
    if event == "import" and arguments[0] in ("torch", "allennlp.__main__") and arguments[0] not in seen:
        seen.append(arguments[0])
        report(f"{arguments[0]}: {os.environ.get('GOMP_SPINCOUNT')}")

seen = []
sys.addaudithook(watch)
socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse
atexit.register(lambda: report(f"imported: {'elmo_tasks.suite' in sys.modules}"))
atexit.register(lambda: report(f"collects: {gc.isenabled()}, frozen: {gc.get_freeze_count() > 100_000}"))
atexit.register(lambda: report(f"log: {os.environ.get('ALLENNLP_LOG_LEVEL')}"))
atexit.register(lambda: report(f"hook: {sys.excepthook.__module__}"))
"""
OF_COMMAND = """hook: elmo_tasks.compat.command
log: WARNING
collects: True, frozen: True
imported: True
"""
OF_PROGRAM = """torch: None
hook: sys
log: None
collects: True, frozen: False
imported: True
"""


def python(script: str, *folders: Path, **environment: str) -> subprocess.CompletedProcess:
    """Runs a script as an interpreter would whose `.pth` files name the folder of placeholders and these."""
    paths = list(map(str, (PLACEHOLDERS, *folders)))
    find = "import _elmo_tasks_imports; sys.meta_path.insert(0, _elmo_tasks_imports.ElmoTasksFinder)"
    start = f"import sys; sys.path += {paths}; {find}\n"
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", start + script + AT_ONCE],
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
    )


class TestPlaceholders:
    @pytest.fixture
    def folder(self, tmp_path) -> Path:
        """The folder of a package in the place of AllenNLP."""
        module = tmp_path / "allennlp" / "data" / "image_loader.py"
        module.parent.mkdir(parents=True)
        module.write_text(IMPORTS)
        return tmp_path

    def test_they_can_be_imported_and_refuse_to_be_used(self, folder):
        done = python(USE + NOT_INSTALLED, folder)
        assert done.returncode == 0, done.stderr

    def test_a_real_package_comes_first(self, folder):
        (folder / "torchvision").mkdir()
        (folder / "torchvision" / "__init__.py").touch()
        (folder / "torchvision" / "ops").mkdir()
        (folder / "torchvision" / "ops" / "boxes.py").write_text("real = True")
        done = python("from allennlp.data.image_loader import box_ops; assert box_ops.real", folder)
        assert done.returncode == 0, done.stderr

    def test_no_other_module_sees_one(self, folder):
        (folder / "other.py").write_text("import torchvision")
        done = python("import allennlp.data.image_loader, other", folder)
        assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: No module named 'torchvision'")


class TestDeferred:
    @pytest.mark.slow
    def test_the_plugins_come_without_what_takes_seconds(self):
        done = subprocess.run(
            [sys.executable, "-c", PLUGINS + AT_ONCE], capture_output=True, text=True, check=True
        )
        # PyTorch 2.7 imports sympy itself.
        of_torch = {"sympy"} if torch.__version__.startswith("2.7.") else set()
        assert set(json.loads(done.stdout)) - of_torch == {"SrlBert"}

    def test_a_class_derived_from_what_waits(self):
        for name, base in ("huggingface_adamw", "AdamW"), ("huggingface_adafactor", "Adafactor"):
            for _ in range(2):
                weight = torch.nn.Parameter(tensor([1.0]))
                optimizer = Optimizer.by_name(name)(model_parameters=[("weight", weight)])
                weight.grad = tensor([1.0])
                optimizer.step()
                assert 0.9 < weight.item() < 1.0
            real = getattr(transformers, base, deferred.adam_w())
            assert type(optimizer).__bases__ == (Optimizer, real)

    def test_names_that_are_gone(self):
        """PyTorch's AdamW takes the place of that of transformers, and rouge finds its files."""
        from rouge import Rouge  # after AllenNLP, without which nothing supplies pkg_resources

        weight = torch.nn.Parameter(tensor([1.0, 2.0]))
        optimizer = deferred.adam_w()([weight], correct_bias=True, lr=0.1, eps=1e-6, weight_decay=0.2)
        weight.grad = tensor([3.0, -4.0])
        optimizer.step()
        # The sign of the gradient, and the decay of the weight
        assert weight.tolist() == pytest.approx([1 - 0.1 - 0.1 * 0.2 * 1, 2 + 0.1 - 0.1 * 0.2 * 2])
        message = error_of(ConfigurationError, deferred.adam_w(), [weight], correct_bias=False)
        assert mentions(message, "trainer.optimizer.correct_bias", "transformers<4.49")
        assert deferred.Deferred("pkg_resources.resource_filename")("rouge.rouge", "x").endswith("rouge/x")
        assert Rouge(stemming=True).WORDNET_KEY_VALUE


class TestPlugin:
    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ([str(ALLENNLP)], "allennlp.__main__: None\ntorch: 5000\n" + OF_COMMAND),
            (["-m", "allennlp"], "torch: 5000\n" + OF_COMMAND),
            (["-c", "from allennlp.commands import main; main(prog='allennlp')"], OF_PROGRAM),
        ],
        ids=["script", "module", "program"],
    )
    def test_it_finds_the_plugin_and_neither_downloads_nor_prints(self, tmp_path, command, expected):
        (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
        report = tmp_path / "report"
        changes = {"PYTHONPATH": str(tmp_path), "REPORT": str(report)}
        names = ("ALLENNLP_LOG_LEVEL", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
        environment = {name: value for name, value in os.environ.items() if name not in names}
        done = subprocess.run(
            [sys.executable, *command, "--version"],
            capture_output=True,
            text=True,
            env=environment | changes,
            cwd=tmp_path,
        )
        assert (done.stdout, done.stderr) == ("allennlp 2.10.1\n", "")
        assert report.read_text() == expected

    @pytest.mark.parametrize(("switch", "error"), [("1", "found"), ("0", "")])
    def test_a_switch_leaves_it_out(self, tmp_path, switch, error):
        (tmp_path / "elmo_tasks.py").write_text("raise SystemExit('found')")
        done = python("import allennlp_server", tmp_path, ELMO_TASKS_PLUGIN=switch)
        assert done.stderr.strip() == error


THREADS = """
from threading import Barrier, Thread
barrier = Barrier(2)
def go(name):
    barrier.wait()
    __import__(name)
threads = [Thread(target=go, args=[name]) for name in ("allennlp", "pathlib")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_another_thread_imports_at_the_same_time():
    """Python calls finders while it holds the lock of all imports, for which the other thread waits."""
    subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=60)
