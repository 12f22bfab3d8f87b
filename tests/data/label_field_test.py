import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Vocabulary

from elmo_tasks.data.fields import ClosedLabelField

CLASSES = ["low", "middle", "high"]


def instances(labels, classes=CLASSES):
    return [Instance({"label": ClosedLabelField(label, classes)}) for label in labels]


def test_all_classes_in_their_order_whatever_the_counts():
    vocab = Vocabulary.from_instances(instances(["high", "high", "middle"]))
    assert vocab.get_token_to_index_vocabulary("labels") == {"low": 0, "middle": 1, "high": 2}
    (instance,) = instances(["high"])
    instance.index_fields(vocab)
    assert instance.as_tensor_dict({"label": {}})["label"].item() == 2


def test_an_unknown_class_is_named():
    vocab = Vocabulary.from_instances(instances(["low"]))
    (instance,) = instances(["4"], ["4"])
    with pytest.raises(ConfigurationError, match=r"found the label '4', expected .*low, middle, high"):
        instance.index_fields(vocab)
