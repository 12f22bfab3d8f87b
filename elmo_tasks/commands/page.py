"""Pages of HTML that need no other file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


def page_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """A template whose values are escaped, and must all be given; `filters` are what it calls so."""
    environment = Environment(
        loader=FileSystemLoader(path.parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= filters
    return environment.get_template(path.name)
