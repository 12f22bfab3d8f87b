"""The names of labels in words, as the page and the service show them."""

from collections.abc import Sequence

_PREFIXES = {"R": "a reference to", "C": "continues"}
"""The prefixes of PropBank's roles, as in `R-ARG0` and `C-ARG1`."""
_NAMES = {
    "PER": "person",
    "LOC": "place",
    "ORG": "organization",
    "MISC": "other name",
    "GPE": "country, state or city",
    "FAC": "building, road or bridge",
    "NORP": "nationality, religion or party",
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
_SENTIMENTS = {"0": "very negative", "1": "negative", "2": "neutral", "3": "positive", "4": "very positive"}
"""The classes of SST-5."""


def label_names(labels: Sequence[str]) -> dict[str, str]:
    """Returns the names of an answer's labels, or of a model's classes, without those that have none."""
    if _SENTIMENTS.keys() == set(labels):
        return _SENTIMENTS
    return {label: name for label in labels if (name := label_name(label))}


def label_name(label: str) -> str:
    """Returns the name of the label of an entity or a role, an empty string if it has none."""
    prefix, _, role = label.partition("-")
    if prefix in _PREFIXES and role in _NAMES:
        return f"{_PREFIXES[prefix]} {_NAMES[role]}"
    return _NAMES.get(label, "")
