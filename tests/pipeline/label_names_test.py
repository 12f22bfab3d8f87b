from elmo_tasks.pipeline.results import label_names
from elmo_tasks.srl.role_names import role_names


def test_names():
    assert label_names(["PER", "MUSEUM"]) == {"PER": "person"}
    assert label_names(["neg", "pos"]) == label_names(["0", "1"]) == {}
    assert next(iter(label_names(list("34210")).items())) == ("0", "very negative")
    names = {"R-ARG0": "a reference to who or what acts", "V": "the predicate"}
    assert role_names(["R-ARG0", "V", "R-MUSEUM", "PER"]) == names
