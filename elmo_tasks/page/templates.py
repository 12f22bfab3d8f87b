"""HTML from Jinja's templates, which all have the same looks."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from elmo_tasks.page import marks
from elmo_tasks.page.markup import entities, heat, spans, starred

HERE = Path(__file__).parent
ASSETS = HERE / "assets"


def page_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """
    A template whose values are escaped, and must all be given; it may include those of this folder, and its
    style sheet.

    # Parameters

    filters : what it calls so, beside those of `markup`.
    """
    environment = Environment(
        loader=FileSystemLoader([path.parent, HERE / "templates", ASSETS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"starred": starred, **filters}
    environment.globals |= {"entities": entities, "spans": spans, "heat": heat}
    return environment.get_template(path.name)


@cache
def template(name: str) -> Template:
    """One of the page's own."""
    return page_template(HERE / "templates" / name, **marks.FILTERS)
