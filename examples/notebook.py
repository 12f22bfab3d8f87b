"""
Runs notebooks and keeps what they print and draw: `python examples/notebook.py examples/*.ipynb`.

It needs no Jupyter. A line `!allennlp ...` is run as in a shell, with `$NAME` for variables. The output of
cells with the tag `varies` depends on the processor.
"""

import base64
import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from elmo_tasks.common.files import bundled

Cell = dict[str, Any]
PROJECT = f"{bundled('fixtures').resolve().parent}/"
"""Left out of what is printed."""


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    """Returns the cells of a notebook that have code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(cells: list[Cell]) -> list[list[Cell]]:
    """Runs cells in one namespace, and returns the outputs of each: the printed text, then the figures."""
    names: dict[str, Any] = {"__name__": "__main__"}
    names["_shell"] = lambda command: shell(re.sub(r"\$(\w+)", lambda match: names[match[1]], command))
    outputs = []
    with plt.rc_context({"backend": "agg"}):
        plt.close("all")
        for cell in cells:
            printed = io.StringIO()
            source = re.sub(
                r"(?m)^!allennlp (.*)$", lambda match: f"_shell({match[1]!r})", "".join(cell["source"])
            )
            with contextlib.redirect_stdout(printed):
                exec(source, names)
            of_cell: list[Cell] = []
            if text := printed.getvalue().replace(PROJECT, ""):
                lines = text.splitlines(keepends=True)
                of_cell.append({"output_type": "stream", "name": "stdout", "text": lines})
            of_cell += [figure(number) for number in plt.get_fignums()]
            plt.close("all")
            outputs.append(of_cell)
    return outputs


def shell(command: str) -> None:
    """Runs `allennlp` with the arguments of a command, and prints what it prints."""
    arguments = [sys.executable, "-m", "allennlp", *shlex.split(command)]
    print(subprocess.run(arguments, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout, end="")


def figure(number: int) -> Cell:
    """Returns a figure of matplotlib as the output of a cell."""
    image = io.BytesIO()
    plt.figure(number).savefig(image, format="png", dpi=80, bbox_inches="tight", metadata={"Software": None})
    data = base64.b64encode(image.getvalue()).decode()
    return {"output_type": "display_data", "metadata": {}, "data": {"image/png": data}}


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = code_cells(notebook)
        for count, (cell, outputs) in enumerate(zip(cells, run(cells), strict=True), start=1):
            cell |= {"outputs": outputs, "execution_count": count}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path)
