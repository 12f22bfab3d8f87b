"""Wheels of AllenNLP with other requirements."""

import base64
import csv
import hashlib
import importlib
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "tools/wheelhouse.py").exists(), reason="the tests of an installed wheel have no project"
)

METADATA = """Metadata-Version: 2.1
Name: allennlp-models
Version: 1.5
License-File: LICENSE
Requires-Dist: torch (<1.13.0,>=1.10.0)
Requires-Dist: fairscale (==0.4.6)
Requires-Dist: nltk (>=3.6.5)
Requires-Dist: jsonnet (>=0.10.0) ; sys_platform != "win32"
Provides-Extra: dev
Requires-Dist: black ; extra == 'dev'

The description, with a ü.
"""
FILES = {"allennlp_models/code.py": "x = 1\n", "LICENSE": "unchanged", "METADATA": METADATA, "RECORD": ",,\n"}
FILES |= {"WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}


@pytest.fixture
def wheelhouse(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("wheelhouse")


@pytest.fixture
def repinned(tmp_path, wheelhouse) -> Path:
    wheel = tmp_path / "allennlp_models-1.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in FILES.items():
            folder = "" if "/" in name else "allennlp_models-1.5.dist-info/"
            archive.writestr(folder + name, text)
    overrides = wheelhouse.read_overrides(
        'torch>=2.7  # newer\n# a comment\nFairscale ; python_version < "3"\n'
    )
    (tmp_path / "dist").mkdir()
    return wheelhouse.repin(wheel, tmp_path / "dist", overrides)


def test_name_and_metadata(repinned):
    assert repinned.name == "allennlp_models-1.5+repinned-py3-none-any.whl"
    with zipfile.ZipFile(repinned) as archive:
        shown = archive.read("allennlp_models-1.5+repinned.dist-info/METADATA").decode()
    assert "Version: 1.5+repinned\n" in shown
    assert shown.endswith("\nThe description, with a ü.\n")
    assert [line for line in shown.splitlines() if line.startswith(("Requires", "Provides"))] == [
        "Requires-Dist: torch>=2.7",
        "Requires-Dist: nltk>=3.6.5",
        'Requires-Dist: jsonnet>=0.10.0; sys_platform != "win32"',
    ]


def test_all_else_stays_and_the_record_is_true(repinned):
    with zipfile.ZipFile(repinned) as archive:
        info = "allennlp_models-1.5+repinned.dist-info"
        assert archive.read("allennlp_models/code.py") == b"x = 1\n"
        assert archive.read(f"{info}/LICENSE") == b"unchanged"
        rows = list(csv.reader(archive.read(f"{info}/RECORD").decode().splitlines()))
        assert {name for name, _, _ in rows} == set(archive.namelist())
        assert rows.pop() == [f"{info}/RECORD", "", ""]
        for name, digest, size in rows:
            content = archive.read(name)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={hashed}", len(content))


@pytest.mark.slow
def test_pip_installs_it(repinned, tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path / "site", repinned], check=True)
    assert (tmp_path / "site/allennlp_models/code.py").exists()


def concerns(need: Requirement, extras: set[str]) -> bool:
    """Returns whether a requirement applies to this interpreter, with these extras of its package."""
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras))


class TestEnvironments:
    """What `pip install elmo_tasks[allennlp]` with the wheels of `make dist` asks of an environment."""

    @pytest.fixture
    def overrides(self, wheelhouse):
        return wheelhouse.all_overrides((ROOT / "requirements/main.lock").read_text())

    @pytest.fixture
    def needs(self, wheelhouse, overrides):
        """Returns the needs of an installed package, or of the wheel in its place."""

        def read(name: str) -> list[Requirement]:
            lines = metadata.requires(name) or []
            if name in wheelhouse.PACKAGES:
                return wheelhouse.repin_needs(lines, overrides)
            return list(map(Requirement, lines))

        return read

    def test_only_a_few_upper_bounds(self, wheelhouse, needs):
        packages = ("elmo-tasks", *wheelhouse.PACKAGES)
        bounded = [need for name in packages for need in needs(name) if not need.specifier.contains("9999")]
        assert {canonicalize_name(need.name) for need in bounded} == {
            *("allennlp", "allennlp-models"),  # the repairs are for this version
            "cached-path",  # a newer one would have bounds again
            "elmo-tasks-models",  # its archives need the biLM of their minor version
            "ray",  # requirements/direct.in has the reason
        }

    def test_the_lock_changes_nothing(self, needs, overrides):
        """All that the installed versions, the newest, need of each other is met."""
        todo, met = [Requirement("elmo_tasks[allennlp]")], set()
        while todo:
            need = todo.pop()
            name = canonicalize_name(need.name)
            dropped = name in overrides and overrides[name] is None
            if str(need) in met or dropped:
                continue
            met.add(str(need))
            assert need.specifier.contains(metadata.version(name), prereleases=True), need
            todo += [each for each in needs(name) if concerns(each, need.extras)]
        names = {Requirement(need).name for need in met}
        assert names >= {"transformers", "huggingface-hub", "tokenizers", "setuptools", "filelock", "rich"}
