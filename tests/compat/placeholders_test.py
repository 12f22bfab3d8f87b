"""AllenNLP without torchvision and fairscale, in an interpreter that has no site-packages of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import elmo_tasks

PLACEHOLDERS = Path(elmo_tasks.__file__).parent / "compat" / "placeholders"
PROJECT = Path(elmo_tasks.__file__).parents[1]
SITE_PACKAGES = Path(torch.__file__).parents[1]

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

def later():
    from torchvision.ops import boxes
    return boxes
"""
USE = """
import inspect
from allennlp.data.image_loader import *
from allennlp.data.image_loader import later, missing

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
    lambda: torchvision.set_image_backend("PIL"),
    lambda: torchvision.models.detection,
    lambda: box_ops.clip_boxes_to_image(1, 2),
    lambda: torchvision.ops.roi_align,
):
    message = refusal(use)
    assert "torchvision is not installed" in message and "pip install torchvision" in message
    assert "text do not need it" in message

for use in (
    lambda: FullyShardedDataParallel(None),
    lambda: Sharded(),
    lambda: Sharded.consolidate_shard_weights([], []),
    lambda: checkpoint_wrapper(None),
    lambda: wrap(None),
    lambda: enable_wrap(),
    lambda: GradScaler(),
):
    message = refusal(use)
    assert "fairscale is not installed" in message and "pip install fairscale" in message

assert refusal(missing) == "No module named 'no_such_module_at_all'"
assert later() is box_ops
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


def python(script: str, *folders: Path, **environment: str) -> subprocess.CompletedProcess:
    """Runs a script as an interpreter would whose `.pth` files name the folder of placeholders and these."""
    paths = list(map(str, (PLACEHOLDERS, *folders)))
    start = f"import sys; sys.path += {paths}; import _elmo_tasks_imports; _elmo_tasks_imports.install()\n"
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", start + script],
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    """Of a package in the place of AllenNLP."""
    module = tmp_path / "allennlp" / "data" / "image_loader.py"
    module.parent.mkdir(parents=True)
    module.write_text(IMPORTS)
    return tmp_path


def test_a_placeholder_can_be_imported_and_refuses_to_be_used(folder):
    done = python(USE + NOT_INSTALLED, folder)
    assert done.returncode == 0, done.stderr


def test_a_real_package_comes_first(folder):
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").touch()
    (folder / "torchvision" / "ops").mkdir()
    (folder / "torchvision" / "ops" / "boxes.py").write_text("real = True")
    done = python("from allennlp.data.image_loader import box_ops; assert box_ops.real", folder)
    assert done.returncode == 0, done.stderr


def test_no_other_module_sees_a_placeholder(folder):
    (folder / "other.py").write_text("import torchvision")
    done = python("import allennlp.data.image_loader, other", folder)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torchvision'"


@pytest.mark.skipif(
    any((SITE_PACKAGES / name).exists() for name in ("torchvision", "fairscale")), reason="they are installed"
)
def test_elmo_tasks_changes_nothing_for_others():
    """AllenNLP and all of ours are imported, and feature tests still say what is true."""
    script = """
import allennlp.commands, elmo_tasks
from multiprocessing import forkserver
from transformers.utils import is_torchvision_available
assert not is_torchvision_available()
assert forkserver._forkserver._preload_modules == ["__main__"]
"""
    done = python(script + NOT_INSTALLED, SITE_PACKAGES, PROJECT)
    assert done.returncode == 0, done.stderr


def test_an_import_error_of_elmo_tasks_is_not_hidden(tmp_path):
    (tmp_path / "elmo_tasks.py").write_text("import no_such_module_at_all")
    done = python("import allennlp_server", tmp_path)
    assert done.returncode
    expected = "RuntimeError: elmo_tasks cannot be imported: No module named 'no_such_module_at_all'"
    assert done.stderr.splitlines()[-1] == expected


def test_a_switch_leaves_elmo_tasks_out(tmp_path):
    (tmp_path / "elmo_tasks.py").write_text("import no_such_module_at_all")
    done = python("import allennlp_server", tmp_path, ELMO_TASKS_PLUGIN="0")
    assert done.returncode == 0, done.stderr
