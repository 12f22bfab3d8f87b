"""
The lines around documents in the columns of CoNLL-2012 (https://conll.cemantix.org/2012/data.html) and of
corpora after its model: `#begin document (ID); part 000` and `#end document`. GUM writes
`# begin document ID`, OntoGUM no id, and others no part.
"""

import re

END = "#end document"
_BEGIN = re.compile(r"# ?begin document *(.*?) *(?:;(?: *part *(\d+))?)? *")


def begun_document(line: str) -> str | None:
    """
    Returns the id of the document that a line begins, with the number of its part, such as `nw/wsj_0001_0`;
    empty if the line has none, and `None` for any other line.
    """
    match = _BEGIN.fullmatch(line)
    if match is None:
        return None
    name, part = match.groups()
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1]
    return name if part is None else f"{name}_{int(part)}"


def ends_document(line: str) -> bool:
    return line.startswith((END, "# end document"))
