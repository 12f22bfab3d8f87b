"""The notebook runs, and prints what is printed in it."""

import json
from contextlib import redirect_stdout
from io import StringIO

from elmo_tasks.common.files import bundled

NOTEBOOK = bundled("fixtures").resolve().parent / "examples" / "quickstart.ipynb"


def test_the_notebook():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            printed = StringIO()
            with redirect_stdout(printed):
                exec("".join(cell["source"]), names)
            (output,) = cell["outputs"]
            assert printed.getvalue() == "".join(output["text"])
    assert len(names["vectors"]) == 13
