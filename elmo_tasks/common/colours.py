"""The colours of labels, by their numbers: the same on the page, in notebooks and in spaCy's displaCy."""

import re
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

COLOURS = 12
"""The number of classes `colour-0` and so on in the style sheet; each also has a line of its own kind."""
STYLE = Path(__file__).parents[1] / "page/assets/style.css"
_ENTITY_TYPES = ("LOC", "MISC", "ORG", "PER")
_MODIFIERS = (
    *("TMP", "MOD", "NEG", "LOC", "ADV", "MNR", "DIS", "PRP", "CAU", "DIR", "EXT"),
    *("PRD", "GOL", "ADJ", "COM", "LVB", "PRR", "CXN", "DSP", "PNC", "REC"),
)
# The most frequent come first, and have a colour of their own.
_ROLES = (
    *("ARG0", "ARG1", "V", "ARG2", *map("ARGM-{}".format, _MODIFIERS)),
    *("ARG3", "ARG4", "ARG5", "ARGA", "ARG1-DSP"),
)
_USUAL = {label: number for number, label in enumerate(_ENTITY_TYPES)} | {
    f"{prefix}{role}": number % COLOURS for number, role in enumerate(_ROLES) for prefix in ("", "R-", "C-")
}
"""The colours of the usual entities and of PropBank's roles; a reference to a role has the role's colour."""
_CLUSTERS = 100


def of_tags(tags: Iterable[str]) -> dict[str, int]:
    """Returns the colours of the labels of tags such as `B-PER`; unusual labels take those that are free."""
    labels = {tag[2:] for tag in tags if tag[1:2] == "-"}
    usual = {label: _USUAL[label] for label in labels if label in _USUAL}
    free = [number for number in range(COLOURS) if number not in usual.values()] or range(COLOURS)
    return usual | dict(zip(sorted(labels - usual.keys()), cycle(free), strict=False))


def for_displacy() -> dict[str, str]:
    """
    Returns the colours of entities, roles and the first clusters by their labels in spaCy: those of the light
    page, since displaCy's text is black. displaCy finds this function as an entry point.
    """
    light, _, _ = STYLE.read_text(encoding="utf-8").partition("@media")
    codes = dict(re.findall(r"--c(\d+): (#\w+)", light))
    # The page counts clusters from 1, the component from 0.
    clusters = {str(index): (index + 1) % COLOURS for index in range(_CLUSTERS)}
    return {label: codes[str(number)] for label, number in (_USUAL | clusters).items()}
