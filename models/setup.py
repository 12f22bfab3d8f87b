"""Takes the version of elmo_tasks from the one file that states it."""

import re
from pathlib import Path

from setuptools import setup

text = (Path(__file__).resolve().parents[1] / "elmo_tasks/__init__.py").read_text(encoding="utf-8")
setup(version=re.findall(r'(?m)^__version__ = "(.+)"$', text)[0])
