"""The wheel, made of the sdist, and the editable install, from a copy, each in an empty environment."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(
        not (ROOT / "setup.py").exists(), reason="the tests of an installed wheel have no project"
    ),
    pytest.mark.slow,
]

FACTS = """
import importlib.util, json, sys
finders = [finder for finder in sys.meta_path if finder.__module__ == "site"]
print(json.dumps({
    "loaded at start-up": sorted({"torch", "typing", "allennlp", "_elmo_tasks_imports"} & set(sys.modules)),
    "finders": sorted({finder.__name__ for finder in finders}),
    "path": sys.path[-1],
    "found": [name for name in ("torchvision", "fairscale") if importlib.util.find_spec(name)],
}))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    project = tmp_path_factory.mktemp("a copy") / "elmo tasks"
    project.mkdir()
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, project)
    for name in ("elmo_tasks", "fixtures", "pretrained", "requirements", "training_configs"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    return project


@pytest.fixture(scope="module")
def wheel(project, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder]
    subprocess.run(command, cwd=project, check=True)
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, next(folder.glob("*.tar.gz")))
    return next(folder.glob("*.whl"))


def pip(*arguments: "str | Path", python: "str | Path" = sys.executable) -> None:
    settings = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_QUIET": "1"}
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, *arguments],
        env={**os.environ, **settings, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=True,
    )


def environment(folder: Path, **kwargs: bool) -> Path:
    venv.create(folder, symlinks=os.name != "nt", **kwargs)
    return folder / "bin" / "python"


def check_start(python: Path, root: Path) -> None:
    """Checks that Python loads nothing when it starts, and finds the placeholders below `root`."""
    done = subprocess.run(
        [python, "-c", FACTS], check=True, capture_output=True, text=True, cwd=python.parent
    )
    assert json.loads(done.stdout) == {
        "loaded at start-up": [],
        "finders": ["ElmoTasksFinder"],
        "path": str(root / "elmo_tasks/compat/placeholders"),
        "found": [],
    }


def site_packages(python: Path) -> Path:
    return next((python.parents[1] / "lib").glob("python*/site-packages"))


def test_the_wheel_carries_everything(wheel, project):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        pth = archive.read("elmo_tasks_placeholders.pth").decode()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert pth.startswith("elmo_tasks/compat/placeholders\nimport sys; ")
    core = re.findall(r"(?m)^Requires-Dist: ([\w-]+)[^;\n]*$", metadata)
    assert set(core) == {"filelock", "fsspec", "numpy", "safetensors", "torch", "tqdm"}
    for name in ("h5py", "lmdb"):
        assert f'Requires-Dist: {name}; python_version < "3.15"' in metadata
    assert 'Requires-Dist: allennlp==2.10.1; extra == "allennlp"' in metadata
    assert "pytest" not in metadata
    for folder in ("fixtures", "pretrained", "training_configs"):
        for path in (project / folder).rglob("*"):
            if path.is_file():
                assert f"elmo_tasks/{path.relative_to(project).as_posix()}" in names
    for path in (project / "elmo_tasks").rglob("*.py"):
        assert path.relative_to(project).as_posix() in names
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


def test_the_wheel_lets_allennlp_be_imported_and_pretends_nothing(wheel, tmp_path):
    python = environment(tmp_path / "env")
    pip("install", wheel, python=python)
    check_start(python, site_packages(python))


def test_the_editable_install_points_at_the_project(project, tmp_path):
    # Building needs setuptools, which an empty environment lacks: it borrows those of the test run.
    python = environment(tmp_path / "env")
    borrowed = site_packages(python) / "borrowed.pth"
    borrowed.write_text(str(Path(pytest.importorskip("setuptools").__file__).parents[1]))
    pip("install", "--no-build-isolation", "--editable", project, python=python)
    borrowed.unlink()

    check_start(python, project)
    for pth in site_packages(python).glob("*.pth"):
        assert Path(pth.read_text().splitlines()[0]).is_dir()

    folder = site_packages(python)
    pip("uninstall", "--yes", "elmo_tasks", python=python)
    assert not list(folder.glob("*"))
