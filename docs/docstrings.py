"""How the site shows docstrings: `# Parameters` as a title, `name : text` as an item with its type."""

import re
from typing import Any

import griffe

TITLE = re.compile(r"^# (\w+)$", re.MULTILINE)
ITEM = re.compile(r"^(\w+(?:, \w+)*|The others) : ", re.MULTILINE)
NUMBER = re.compile(r"^(\s*\d+)\. ", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring that is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            types = {
                parameter.name: str(parameter.annotation)
                for parameter in getattr(obj, "parameters", ())
                if parameter.annotation is not None
            }

            def item(match: re.Match[str]) -> str:
                """Returns the beginning of an item: the names of parameters as code, and their types."""
                if match[1] == "The others":
                    return "- The others: "
                names = match[1].split(", ")
                of_names = dict.fromkeys(types[name] for name in names if name in types)
                shown = "".join(f" *{re.escape(kind)}*" for kind in of_names)
                return f"- {', '.join(f'`{name}`' for name in names)}{shown}: "

            listed = ITEM.sub(item, obj.docstring.value)
            # A year that ends a sentence is not an item of a list
            obj.docstring.value = NUMBER.sub(r"\1\\. ", TITLE.sub(r"**\1**\n", listed))
