"""The names of PropBank's roles in words, as the page and the service show them."""

from collections.abc import Iterable

_PREFIXES = {"R": "a reference to", "C": "continues"}
_NAMES = {
    "V": "the predicate",
    "ARG0": "who or what acts",
    "ARG1": "who or what it happens to",
    "ARG2": "receiver, means or result",
    "ARG3": "start, receiver or quality",
    "ARG4": "end point",
    "ARG5": "direction",
    "ARGA": "who causes the act",
    "ARGM-ADJ": "adjective",
    "ARGM-ADV": "adverb or condition",
    "ARGM-CAU": "cause",
    "ARGM-COM": "with whom",
    "ARGM-CXN": "comparison",
    "ARGM-DIR": "direction",
    "ARGM-DIS": "link to the text before",
    "ARGM-DSP": "direct speech",
    "ARGM-EXT": "how much",
    "ARGM-GOL": "goal",
    "ARGM-LOC": "where",
    "ARGM-LVB": "light verb",
    "ARGM-MNR": "how",
    "ARGM-MOD": "modal verb",
    "ARGM-NEG": "negation",
    "ARGM-PNC": "purpose",
    "ARGM-PRD": "quality of an argument",
    "ARGM-PRP": "purpose",
    "ARGM-PRR": "noun of a light verb",
    "ARGM-REC": "each other",
    "ARGM-TMP": "when",
}


def role_names(labels: Iterable[str]) -> dict[str, str]:
    return {label: name for label in labels if (name := _role_name(label))}


def _role_name(label: str) -> str:
    prefix, _, role = label.partition("-")
    if prefix in _PREFIXES and role in _NAMES:
        return f"{_PREFIXES[prefix]} {_NAMES[role]}"
    return _NAMES.get(label, "")
