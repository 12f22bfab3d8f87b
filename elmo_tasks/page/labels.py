"""The meanings of labels, in words."""

_PREFIXES = {"R": "a reference to", "C": "goes on:"}
"""Of PropBank's roles: `R-ARG0`, `C-ARG1`."""
_MEANINGS = {
    "PER": "person",
    "LOC": "place",
    "ORG": "organization",
    "MISC": "other name",
    "answer": "the answer",
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


def meaning(label: str) -> str:
    """Returns the meaning of the label of an entity or a role; the label itself if it is not known."""
    if label.isdecimal():
        return f"mention of cluster {label}"
    prefix, _, role = label.partition("-")
    if prefix in _PREFIXES:
        return f"{_PREFIXES[prefix]} {meaning(role)}"
    if label not in _MEANINGS:
        from spacy.glossary import GLOSSARY  # takes a third of a second

        return GLOSSARY.get(label, label)
    return _MEANINGS[label]
