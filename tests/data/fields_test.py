import json
import logging
from dataclasses import dataclass

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import sanitize
from allennlp.data import Batch, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.data.fields import ClosedLabelField, Metadata, TagField
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.data.tokenization import Words


@dataclass
class Known(Metadata):
    words: Words
    label: str | None = None


def test_metadata_is_written_by_field_names():
    """Also in AllenNLP's output, which keeps a missing value."""
    known = Known(Words("a b", ["a", "b"], [(0, 1), (2, 3)]))
    (written,) = json.loads(json.dumps(sanitize({"metadata": [known]})))["metadata"]
    words = {"text": "a b", "words": ["a", "b"], "offsets": [[0, 1], [2, 3]]}
    assert written == {"words": words, "label": None}


def labelled(label, classes=("low", "middle", "high")):
    return Instance({"label": ClosedLabelField(label, classes)})


def test_all_classes_enter_the_vocabulary_in_their_order():
    vocab = Vocabulary.from_instances(map(labelled, ["high", "high", "middle"]))
    assert vocab.get_token_to_index_vocabulary("labels") == {"low": 0, "middle": 1, "high": 2}
    instance, unknown = labelled("high"), labelled("4", ["4"])
    instance.index_fields(vocab)
    assert instance.as_tensor_dict({"label": {}})["label"].item() == 2
    with pytest.raises(ConfigurationError, match=r"'4'.*low, middle, high"):
        unknown.index_fields(vocab)


def tagged(tags):
    tags = tags.split()
    tokens = TextField([Token("x")] * len(tags), {"tokens": SingleIdTokenIndexer()})
    return Instance({"tokens": tokens, "tags": TagField(tags, tokens)})


def read(*sentences):
    """The instances as a reader of a model passes them on."""
    reader, instances = TaskReader(), list(map(tagged, sentences))
    for instance in instances:
        reader.apply_token_indexers(instance)
    return instances


def tags_of(*sentences):
    vocabulary = Vocabulary.from_instances(map(tagged, sentences))
    return list(vocabulary.get_token_to_index_vocabulary("labels"))


def tag_ids(instances, vocabulary):
    batch = Batch(instances)
    batch.index_instances(vocabulary)
    return batch.as_tensor_dict()["tags"].tolist()


def test_a_type_brings_all_its_tags():
    assert tags_of("O O U-MISC") == ["O", "B-MISC", "I-MISC", "L-MISC", "U-MISC"]
    assert tags_of("B-a-b L-a-b") == ["O", "B-a-b", "I-a-b", "L-a-b", "U-a-b"]
    assert tags_of("O O") == ["O"]
    assert tags_of("U-B U-A") == tags_of("U-A U-B")  # equally frequent


@pytest.mark.parametrize(
    "sentences",
    [
        ["U-B O U-A", "B-A I-A L-A"],
        ["B-A I-A I-A L-A", "U-B"],  # no O anywhere
        ["U-A U-B", "U-A"],
    ],
)
def test_o_comes_first_then_the_types_by_frequency(sentences):
    assert [label[-1] for label in tags_of(*sentences)] == list("OAAAABBBB")
    assert tags_of(*sentences)[1:5] == ["B-A", "I-A", "L-A", "U-A"]


def test_tags_are_indexed_and_padded():
    instances = [tagged("U-A O"), tagged("O B-A L-A")]
    assert tag_ids(instances, Vocabulary.from_instances(instances)) == [[4, 0, 0], [0, 1, 3]]


def test_an_unknown_type_counts_as_o_and_warns_once(caplog):
    """For each model, whatever another one has read."""
    for _ in range(2):
        vocabulary = Vocabulary.from_instances([tagged("O U-A")])
        caplog.clear()  # AllenNLP's own messages
        with caplog.at_level(logging.WARNING):
            ids = tag_ids(read("U-A B-NEW L-NEW", "U-NEW U-C-D"), vocabulary)
        assert ids == [[4, 0, 0], [0, 0, 0]]
        first, second = (record.getMessage() for record in caplog.records)
        assert "type NEW" in first
        assert "type C-D" in second
