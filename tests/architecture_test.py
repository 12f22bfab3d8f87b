"""The picture in docs/architecture.md is true to the code."""

import ast
import re
from pathlib import Path

import grimp

from elmo_tasks.paths import bundled

TASKS = ("ner", "srl", "coref", "squad", "snli", "sst", "classification", "language_model")
FLOORS = ("elmo/inference", "elmo/model")
TESTS = Path(__file__).parent
PICTURE = bundled("fixtures").resolve().parent / "docs" / "architecture.md"


def room(module: str) -> str:
    """The node of the picture in which a module stands."""
    path = module.removeprefix("elmo_tasks.").replace(".", "/")
    for floor in FLOORS:
        if path.startswith(floor):
            return floor
    folder = path.split("/")[0]
    return "tasks" if folder in TASKS else folder


def test_the_arrows_are_the_imports():
    graph = grimp.build_graph("elmo_tasks", cache_dir=None)
    imports = set()
    for importer in graph.modules - {"elmo_tasks"}:
        for imported in graph.find_modules_directly_imported_by(importer):
            above, below = room(importer), room(imported)
            # For the rooms above, ELMo is one.
            imports.add((above, below if above.startswith("elmo") else below.split("/")[0]))
    arrows = set(re.findall(r"^    (\S+) --> (\S+)$", PICTURE.read_text(encoding="utf-8"), re.MULTILINE))
    assert arrows == {(importer, imported) for importer, imported in imports if importer != imported}


def test_constructors_are_short():
    for path in Path(bundled("elmo_tasks")).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                assert len(node.args.args[1:] + node.args.kwonlyargs) <= 10, (path, node.lineno)


def test_every_room_is_described():
    rooms = {path.name for path in Path(bundled("elmo_tasks")).iterdir() if (path / "__init__.py").exists()}
    described = set(re.findall(r"`(\w+)/`", PICTURE.read_text(encoding="utf-8")))
    assert rooms <= described


def test_every_module_has_a_test_of_its_name():
    """That of `elmo_tasks/room/name.py` is `tests/room/name_test.py`; packages need none."""
    modules = grimp.build_graph("elmo_tasks", cache_dir=None).modules
    packages = {module.rpartition(".")[0] for module in modules}
    expected = {f"{module.replace('.', '/')}_test.py" for module in modules - packages}
    found = {f"elmo_tasks/{path.relative_to(TESTS).as_posix()}" for path in TESTS.rglob("*_test.py")}
    assert sorted(expected - found) == []
