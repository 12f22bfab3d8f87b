"""The placeholders, in an interpreter without site-packages: no real torchvision can be there."""

import subprocess
import sys
from pathlib import Path

from transformers.utils import is_torchvision_available

import elmo_tasks

PLACEHOLDERS = Path(elmo_tasks.__file__).parent / "compat" / "placeholders"

SCRIPT = """
import inspect, pickle, sys
sys.path.append(sys.argv[1])

# every import that AllenNLP makes
import torchvision
import torchvision.ops.boxes as box_ops
from fairscale.nn import FullyShardedDataParallel
from fairscale.nn.checkpoint import checkpoint_wrapper
from fairscale.nn.misc import FlattenParamsWrapper
from fairscale.nn.wrap import enable_wrap, wrap
from fairscale.optim.grad_scaler import GradScaler

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
    lambda: exec("from torchvision.ops import roi_align"),
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

assert not isinstance(3, FlattenParamsWrapper)

# what tools probe for
assert not hasattr(torchvision, "__wrapped__") and not hasattr(GradScaler, "__wrapped__")
assert inspect.getmodule(GradScaler).__name__ == "fairscale.optim.grad_scaler"
inspect.getmembers(GradScaler)
inspect.getdoc(torchvision)
pickle.loads(pickle.dumps(FullyShardedDataParallel))
"""


def test_a_placeholder_can_be_imported_and_refuses_to_be_used():
    subprocess.run([sys.executable, "-I", "-S", "-c", SCRIPT, PLACEHOLDERS], check=True)


def test_transformers_is_not_misled():
    import torchvision

    assert is_torchvision_available() != (PLACEHOLDERS in Path(torchvision.__file__).parents)


def test_an_import_error_of_elmo_tasks_is_not_hidden(tmp_path):
    (tmp_path / "elmo_tasks.py").write_text("import no_such_module_at_all")
    folders = [str(tmp_path), str(PLACEHOLDERS)]
    script = f"import sys; sys.path += {folders}; import allennlp_server"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True)
    assert done.returncode
    expected = "RuntimeError: elmo_tasks cannot be imported: No module named 'no_such_module_at_all'"
    assert done.stderr.splitlines()[-1] == expected
