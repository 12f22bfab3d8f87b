"""The names of labels in words, as the page and the service show them; those of roles are in `srl`."""

from collections.abc import Collection

_NAMES = {
    "PER": "person",
    "LOC": "place",
    "ORG": "organization",
    "MISC": "other name",
    "GPE": "country, state or city",
    "FAC": "building, road or bridge",
    "NORP": "nationality, religion or party",
    "V": "the predicate",  # of `elmo:predicates`
}
_SENTIMENTS = {"0": "very negative", "1": "negative", "2": "neutral", "3": "positive", "4": "very positive"}
"""The classes of SST-5."""


def label_names(labels: Collection[str]) -> dict[str, str]:
    """Returns the names of types of entities, or of a model's classes, without those that have none."""
    if _SENTIMENTS.keys() == set(labels):
        return _SENTIMENTS
    return {label: _NAMES[label] for label in labels if label in _NAMES}
