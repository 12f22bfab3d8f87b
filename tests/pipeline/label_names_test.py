import pytest

from elmo_tasks.pipeline.results import label_names
from elmo_tasks.srl.role_names import role_names


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["PER", "MUSEUM"], {"PER": "person"}),
        (["neg", "pos"], {}),
        (["0", "1"], {}),
    ],
)
def test_names(labels, names):
    assert label_names(labels) == names


def test_names_of_roles():
    names = {"R-ARG0": "a reference to who or what acts", "V": "the predicate"}
    assert role_names(["R-ARG0", "V", "R-MUSEUM", "PER"]) == names


def test_the_five_classes_of_the_treebank():
    assert next(iter(label_names(list("34210")).items())) == ("0", "very negative")
