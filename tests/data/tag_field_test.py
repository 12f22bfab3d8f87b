import logging

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.data.fields import TagField


@pytest.fixture(autouse=True)
def forget_warnings():
    TagField._warned.clear()


def instance(tags):
    tags = tags.split()
    tokens = TextField([Token("x")] * len(tags), {"tokens": SingleIdTokenIndexer()})
    return Instance({"tokens": tokens, "tags": TagField(tags, tokens)})


def labels(*sentences):
    vocabulary = Vocabulary.from_instances([instance(tags) for tags in sentences])
    return list(vocabulary.get_token_to_index_vocabulary("labels"))


def test_a_type_brings_all_its_tags():
    assert labels("O O U-MISC") == ["O", "B-MISC", "I-MISC", "L-MISC", "U-MISC"]
    assert labels("B-a-b L-a-b") == ["O", "B-a-b", "I-a-b", "L-a-b", "U-a-b"]
    assert labels("O O") == ["O"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["U-B O U-A", "B-A I-A L-A"],
        ["B-A I-A I-A L-A", "U-B"],  # no O anywhere
        ["U-A U-B", "U-A"],
    ],
)
def test_o_comes_first_then_the_types_by_frequency(sentences):
    assert [label[-1] for label in labels(*sentences)] == list("OAAAABBBB")
    assert labels(*sentences)[1:5] == ["B-A", "I-A", "L-A", "U-A"]


def test_equally_frequent_types_have_one_order():
    assert labels("U-B U-A") == labels("U-A U-B")


def test_indexes_and_pads():
    instances = [instance("U-A O"), instance("O B-A L-A")]
    batch = Batch(instances)
    batch.index_instances(Vocabulary.from_instances(instances))
    assert batch.as_tensor_dict()["tags"].tolist() == [[4, 0, 0], [0, 1, 3]]


def test_an_unknown_type_counts_as_o_and_warns_once(caplog):
    vocabulary = Vocabulary.from_instances([instance("O U-A")])
    unknown = [instance("U-A B-B L-B"), instance("U-B U-C-D")]
    caplog.clear()  # what making the vocabulary said
    with caplog.at_level(logging.WARNING):
        for each in unknown:
            each.index_fields(vocabulary)
    assert [each["tags"]._indexed_labels for each in unknown] == [[4, 0, 0], [0, 0]]
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "does not have B-B" in messages[0]
    assert "type C-D" in messages[1]


def test_a_vocabulary_without_tags():
    with pytest.raises(ConfigurationError, match="namespace 'labels' has no tag 'O'"):
        instance("O").index_fields(Vocabulary())
