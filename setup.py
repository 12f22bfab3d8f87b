"""
Metadata, and two build steps for which setuptools has no setting.

The wheel and the editable install both carry a `.pth` file that appends the folder
`elmo_tasks/compat/placeholders` to `sys.path` and waits for the first import of AllenNLP. The wheel
also carries `fixtures/`, `pretrained/` and `training_configs/`, as folders of the package.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

# isort: split
from distutils.command.install_data import (
    install_data,
)  # setuptools provides it from Python 3.12 on

HERE = Path(__file__).resolve().parent
PLACEHOLDERS = Path("elmo_tasks", "compat", "placeholders")
PTH_LINE = (
    'import sys; sys.meta_path.insert(0, type("ElmoTasksFinder", (), {"find_spec": staticmethod('
    'lambda name, path=None, target=None: __import__("_elmo_tasks_imports").find_first(path) '
    'if name == "allennlp" else None)}))'
)
"""Waits for the first import of AllenNLP. To import a module when Python starts would take milliseconds."""
DATA_FOLDERS = ("fixtures", "pretrained", "training_configs")


def read_needs() -> dict[str, list[str]]:
    """The parts of requirements/direct.in by their names, so that each need is written down once."""
    text = (HERE / "requirements/direct.in").read_text(encoding="utf-8")
    _, *parts = re.split(r"(?m)^# \[(\w+)\].*$", text)
    return {
        name: [need for line in lines.splitlines() if (need := line.partition("#")[0].strip())]
        for name, lines in zip(parts[::2], parts[1::2], strict=True)
    }


class BuildPy(build_py):
    """Copies the data folders into the package; in an editable install they are next to it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            self.run_command("install_data")  # the editable install leaves it out
            return
        for folder in DATA_FOLDERS:
            for source in sorted((HERE / folder).rglob("*")):
                if source.is_file():
                    target = Path(self.build_lib, "elmo_tasks", source.relative_to(HERE))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, target)


class InstallData(install_data):
    """Writes the `.pth` file next to the data files."""

    def run(self) -> None:
        super().run()
        build: Any = self.get_finalized_command("build_py")
        install: Any = self.get_finalized_command("install")
        folder = str(HERE / PLACEHOLDERS) if build.editable_mode else PLACEHOLDERS.as_posix()
        site_packages = Path(install.install_lib)
        site_packages.mkdir(parents=True, exist_ok=True)
        # "locale" is what the site module reads, or falls back to.
        with open(site_packages / "elmo_tasks_placeholders.pth", "w", encoding="locale") as pth:
            pth.write(f"{folder}\n{PTH_LINE}\n")


def read_version() -> str:
    """Returns the version of elmo_tasks/__init__.py, the one place where it stands; nothing is imported."""
    text = (HERE / "elmo_tasks/__init__.py").read_text(encoding="utf-8")
    match = re.search(r'(?m)^__version__ = "(.+)"$', text)
    if match is None:
        raise RuntimeError("elmo_tasks/__init__.py: found no __version__")
    return match[1]


NEEDS = read_needs()

VERSION = read_version()

setup(
    name="elmo_tasks",
    version=VERSION,
    description="The six tasks of the ELMo paper, and ELMo itself, as a plug-in suite for AllenNLP",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The maintainers of elmo_tasks",
    keywords=[
        *("ELMo", "AllenNLP", "biLM", "contextual word vectors", "named entity recognition"),
        *("semantic role labeling", "coreference resolution", "question answering", "text classification"),
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Programming Language :: Python :: 3.15",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    project_urls={"Paper": "https://arxiv.org/abs/1802.05365"},
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    install_requires=NEEDS["core"],
    extras_require={
        **{extra: NEEDS[extra] for extra in ("allennlp", "ray", "serve", "onnx")},
        "mlflow": ["mlflow"],
        # The second wheel of `make dist`: its archives need the biLM of their minor version.
        "models": [f"elmo_tasks_models~={VERSION}"],
    },
    # With them `nlp.add_pipe("elmo")` needs no import, and displaCy has the page's colours.
    entry_points={
        "spacy_displacy_colors": ["elmo = elmo_tasks.common.colours:for_displacy"],
        "spacy_factories": [
            "elmo = elmo_tasks.libraries.spacy_vectors:make_vectors",
            "elmo_ner = elmo_tasks.libraries.spacy_archives:make_ner",
            "elmo_coref = elmo_tasks.libraries.spacy_archives:make_coref",
            "elmo_srl = elmo_tasks.libraries.spacy_archives:make_srl",
            "elmo_classifier = elmo_tasks.libraries.spacy_archives:make_classifier",
        ],
    },
    # The explicit root makes the editable install a plain path, without an import hook at start-up.
    package_dir={"": "."},
    packages=find_packages(include=["elmo_tasks", "elmo_tasks.*"]),
    package_data={
        "elmo_tasks": ["py.typed"],
        "elmo_tasks.page": ["templates/**/*.html", "assets/*"],
        "elmo_tasks.compat": ["placeholders/**/*.py"],
    },
    data_files=[("", [])],  # so that `InstallData` runs
    cmdclass={"build_py": BuildPy, "install_data": InstallData},
)
