import subprocess
import sys
from pathlib import Path

import elmo_tasks
from tests.conftest import environment

PROGRAM = """
import sys
import allennlp.commands
from allennlp.modules import elmo
# The first of these calls is AllenNLP's own, which imports elmo_tasks.
for package in ["elmo_tasks", "elmo_tasks", "elmo_tasks.drop_in"]:
    allennlp.commands.import_module_and_submodules(package)
    print(elmo.Elmo.__module__)
print(*(name for name in sys.modules if name.startswith("elmo_tasks")))
"""


def test_what_is_named_is_imported_and_the_suite_registers_all_there_is():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment(), capture_output=True, text=True, check=True
    )
    *elmos, modules = done.stdout.splitlines()
    assert elmos == ["allennlp.modules.elmo", "allennlp.modules.elmo", "elmo_tasks.drop_in.elmo"]
    for optional in ("drop_in_stateless", "libraries", "page.app", "scale", "serving.app"):
        assert f"elmo_tasks.{optional}" not in modules.split()
    root = Path(elmo_tasks.__file__).parent
    registering = [
        file for file in root.rglob("*.py") if "\n@" in (text := file.read_text()) and ".register(" in text
    ]
    names = {
        ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in registering
    }
    assert "elmo_tasks.ner.model" in names
    assert names <= set(modules.split())
