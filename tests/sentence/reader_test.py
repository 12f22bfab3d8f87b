import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_tasks.sentence.reader import SentenceReader, SentenceText
from tests.errors import mentions
from tests.records import json_lines, labels_of, read_with, words_of

RECORDS = [
    {"task": "inference", "sentence1": "A dog runs.", "sentence2": "It moves.", "gold_label": "entailment"},
    {"task": "opinions", "sentence": "Not bad.", "label": 1, "id": "a"},
    {"task": "neighbours", "sentence1": "It rained.", "sentence2": "We stayed in."},
    {"task": "opinions", "sentence": "Bad!", "label": 0},
]


def read(path, *records):
    return read_with(SentenceReader, path, json_lines(*records))


def test_records_of_several_tasks(tmp_path):
    instances = read(tmp_path / "a", *RECORDS)
    assert labels_of(instances) == ["entailment", "1", -1, "0"]
    assert words_of(instances, "sentence1")[:2] == [["A", "dog", "runs", "."], ["Not", "bad", "."]]
    assert words_of(instances, "sentence2")[:2] == [["It", "moves", "."], []]
    metadata = [instance["metadata"].metadata for instance in instances]
    assert metadata[1] == SentenceText(["Not", "bad", "."], None, "opinions")
    assert metadata[1].ids == {"id": "a"}
    assert list(map(len, metadata)) == [4, 3, 4, 2]
    vocab = Vocabulary.from_instances(instances)
    assert list(vocab.get_token_to_index_vocabulary("inference_pair_labels")) == ["entailment"]
    assert sorted(vocab.get_token_to_index_vocabulary("opinions_labels")) == ["0", "1"]
    for instance in instances:
        instance.index_fields(vocab)
    assert int(instances[2].as_tensor_dict()["label"]) == -1


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"task": None}, "'task'"),
        ({"task": "two words"}, "two words"),
        ({"sentence": 5}, "5"),
        ({"sentence": " "}, "sentence"),
        ({"label": None}, "label"),
    ],
)
def test_records_that_do_not_follow_the_format(tmp_path, changes, place):
    path = tmp_path / "a.jsonl"
    with pytest.raises(ConfigurationError) as caught:
        read(path, RECORDS[0], RECORDS[1] | changes)
    assert mentions(str(caught.value), str(path), "2", place)


def test_a_label_that_training_has_not_seen(tmp_path):
    instances = read(tmp_path / "a", *RECORDS)
    vocab = Vocabulary.from_instances(instances[:2])
    with pytest.raises(ConfigurationError, match="'0' is not one of the labels 1"):
        instances[3].index_fields(vocab)
