"""
docs/results.md, made of `results.template.md` and the CSV files of docs/results/, so that each number in it
stands in a file. The template is Jinja2's; what it calls are the methods of `PageTables`. By hand it has no
decimal number and no percentage, but in code spans and links.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.page_tables import PageTables
from elmo_tasks.common.files import atomic_file
from elmo_tasks.data.input_files import InputError

PROJECT = Path(__file__).parent.parent
RESULTS, PAGE = PROJECT / "docs/results", PROJECT / "docs/results.md"
TEMPLATE = Path(__file__).with_name("results.template.md")
_NO_PROSE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|`[^`]*`|\[[^\]]*\]\([^)]*\)", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.,-])[\d.,]*\d%?")


def typed_numbers(template: str) -> list[tuple[int, str]]:
    """The decimal numbers and percentages that a template has by hand, each with its line."""
    prose = _NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), template)
    return [
        (line, match[0])
        for line, text in enumerate(prose.splitlines(), start=1)
        for match in _NUMBER.finditer(text)
        # A version has more than one point.
        if match[0].endswith("%") or match[0].count(".") == 1
    ]


def rendered(results: Path, commands: Mapping[str, str], template: Path = TEMPLATE) -> str:
    """
    The page.

    # Raises
    `InputError`: a number is typed by hand; what a table needs is in no file, or not as it should be.
    """
    for line, number in typed_numbers(template.read_text(encoding="utf-8")):
        raise InputError.at(template, line, found=number, expected="a number of a CSV file, or a code span")
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    tables = PageTables(results=results, commands=commands)
    calls: dict[str, Any] = {name: getattr(tables, name) for name in dir(tables) if not name.startswith("_")}
    try:
        text = environment.get_template(template.name).render(calls)
    except KeyError as error:
        raise InputError.at(
            template, found=f"{error}, which no file has", expected="a name of a file"
        ) from error
    return re.sub(r"\n{3,}", "\n\n", text)


def write_page(results: Path, commands: Mapping[str, str]) -> None:
    """Writes docs/results.md."""
    text = rendered(results, commands)
    with atomic_file(PAGE) as file:
        file.write(text.encode())
    print(PAGE)
