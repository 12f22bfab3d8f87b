"""How the site shows docstrings: `# Parameters` and the like as titles, `name : text` as items of a list."""

import re
from typing import Any

import griffe

TITLE = re.compile(r"^# (\w+)$", re.MULTILINE)
ITEM = re.compile(r"^(\w+(?:, \w+)*|The others) : ", re.MULTILINE)
NUMBER = re.compile(r"^(\s*\d+)\. ", re.MULTILINE)


def item(match: re.Match[str]) -> str:
    """The beginning of an item: the names of parameters as code."""
    names = match[1]
    shown = names if names == "The others" else re.sub(r"(\w+)", r"`\1`", names)
    return f"- {shown}: "


class Docstrings(griffe.Extension):
    """Rewrites every docstring that is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            listed = ITEM.sub(item, obj.docstring.value)
            # A year that ends a sentence is no item of a list
            obj.docstring.value = NUMBER.sub(r"\1\\. ", TITLE.sub(r"**\1**\n", listed))
