import subprocess
import sys

from tests.conftest import environment

PROGRAM = """
import sys
import elmo_tasks, allennlp.commands
from allennlp.modules import elmo
for package in ["elmo_tasks", "elmo_tasks.drop_in"]:
    allennlp.commands.import_module_and_submodules(package)
    print(elmo.Elmo.__module__)
print("elmo_tasks.serving" in sys.modules or "elmo_tasks.page.app" in sys.modules)
"""


def test_only_who_names_the_drop_in_has_it_and_the_service_is_left_out():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["allennlp.modules.elmo", "elmo_tasks.drop_in.elmo", "False"]
