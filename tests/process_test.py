"""What an import changes in a process, as docs/architecture.md lists it."""

import json
import subprocess
import sys

import pytest

from tests.conftest import environment

STATE = """
import builtins, csv, gc, json, logging, os, sys, warnings

hooks = []
sys.addaudithook(lambda event, arguments: event == "sys.addaudithook" and hooks.append(event))

def name_of(finder):
    return getattr(finder, "__name__", type(finder).__name__)

def state():
    return {
        "meta_path": [*dict.fromkeys(map(name_of, sys.meta_path))],
        "path": list(sys.path),
        "builtins": {name: id(value) for name, value in vars(builtins).items() if name != "_"},
        "environment": dict(os.environ),
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)],
        "csv": csv.field_size_limit(),
        "hooks": [id(sys.excepthook), id(sys.unraisablehook), *hooks],
        "log": [logging.root.level, len(logging.root.handlers), logging.root.manager.disable],
        "stand-ins": [
            name
            for name, module in sys.modules.items()
            if module is None or type(module).__module__.startswith(("_elmo_tasks", "elmo_tasks"))
        ],
        "warnings": len(warnings.filters),
    }

def report(before):
    after = state()
    changed = {name: after[name] for name in after if after[name] != before[name]}
    print(json.dumps(changed | {"modules": sorted({"torch", "allennlp", "elmo_tasks"} & set(sys.modules))}))
"""


def changes(script: str, *options: str, **settings: str) -> dict:
    """Returns what a script that imports something changes in an interpreter, by the names of `STATE`."""
    ended = f"import os\n{STATE}\nbefore = state()\n{script}\nreport(before)\nsys.stdout.flush()\nos._exit(0)"
    of_user = {name: value for name, value in environment().items() if name != "ALLENNLP_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, *options, "-c", ended], env=of_user | settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_start_of_python():
    """One finder, which answers for AllenNLP alone, and its folder at the end of the path."""
    script = f"{STATE}\nprint(json.dumps([state()['meta_path'], state()['path'], sorted(sys.modules)]))"
    (finders, path, modules), (stock_finders, _, stock_modules) = (
        json.loads(
            subprocess.run([sys.executable, *options, "-c", script], capture_output=True, text=True).stdout
        )
        for options in ([], ["-S"])
    )
    others = (
        "encodings",
        "_distutils_hack",
        "__editable__",
        "sitecustomize",
        "usercustomize",
        "site",
        "_sitebuiltins",
    )
    assert finders[0] == "ElmoTasksFinder"
    assert [
        name for name in finders if name not in ("ElmoTasksFinder", "DistutilsMetaFinder")
    ] == stock_finders
    assert path[-1].endswith("placeholders")
    assert not {name for name in set(modules) - set(stock_modules) if not name.startswith(others)}


# AllenNLP sets two filters itself, and PyTorch and NumPy more. The module allennlp waits for the first use.
@pytest.mark.parametrize(
    ("script", "changed", "modules"),
    [
        ("import allennlp", {"warnings"}, ["allennlp"]),
        ("import elmo_tasks", {"meta_path"}, ["elmo_tasks"]),
        ("import elmo_tasks, allennlp", {"meta_path", "stand-ins", "warnings"}, ["allennlp", "elmo_tasks"]),
    ],
)
def test_an_import(script, changed, modules):
    found = changes(script)
    assert found.pop("modules") == modules
    assert found.keys() == changed


@pytest.mark.parametrize("script", ["import elmo_tasks.suite", "import elmo_tasks; elmo_tasks.load('ner')"])
def test_the_suite(script):
    """PyTorch brings warning filters and names in `sys.modules`, and filelock an audit hook."""
    of_torch = changes("import torch, numpy, tqdm, filelock")
    found = changes(script)
    assert found.keys() - of_torch.keys() <= {"warnings"}
    assert found.get("stand-ins", []) == of_torch.get("stand-ins", [])


def test_finders_of_others_stay():
    finder = "type('Other', (), {'__module__': 'site', 'find_spec': staticmethod(lambda *arguments: None)})"
    script = f"import sys; sys.meta_path.insert(0, {finder}); import allennlp; print(sys.meta_path)"
    assert "Other" in subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
