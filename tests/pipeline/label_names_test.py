import pytest

from elmo_tasks.pipeline.label_names import label_names


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["R-ARG0", "V"], {"R-ARG0": "a reference to who or what acts", "V": "the predicate"}),
        (["PER", "MUSEUM", "R-MUSEUM"], {"PER": "person"}),
        (["neg", "pos"], {}),
        (["0", "1"], {}),
    ],
)
def test_names(labels, names):
    assert label_names(labels) == names


def test_the_five_classes_of_the_treebank():
    assert next(iter(label_names(list("34210")).items())) == ("0", "very negative")
