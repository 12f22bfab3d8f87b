"""docs/architecture.md is true to the code."""

import ast
import re
import tomllib
from pathlib import Path

import grimp

from elmo_tasks.common.files import bundled

ROOT = bundled("fixtures").resolve().parent
TESTS = Path(__file__).parent


def test_the_picture_has_the_layers_of_the_contract():
    picture = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert re.findall(r'class="layer".*?>(.*?)<', picture) == contracts["contracts"][0]["layers"]


def test_constructors_are_short():
    for path in Path(bundled("elmo_tasks")).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                assert len(node.args.args[1:] + node.args.kwonlyargs) <= 10, (path, node.lineno)


def test_every_package_is_described():
    packages = {
        path.name for path in Path(bundled("elmo_tasks")).iterdir() if (path / "__init__.py").exists()
    }
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`(\w+)/`", page))
    assert packages <= described


def test_every_module_has_a_test_of_its_name():
    """That of `elmo_tasks/package/name.py` is `tests/package/name_test.py`; packages need none."""
    modules = grimp.build_graph("elmo_tasks", cache_dir=None).modules
    packages = {module.rpartition(".")[0] for module in modules}
    expected = {f"{module.replace('.', '/')}_test.py" for module in modules - packages}
    found = {f"elmo_tasks/{path.relative_to(TESTS).as_posix()}" for path in TESTS.rglob("*_test.py")}
    assert sorted(expected - found) == []
