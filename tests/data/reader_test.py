import logging

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.dataset_readers import MultiTaskDatasetReader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.fields import ListField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.common.files import bundled
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.reader import TaskReader, check_readable, group_id, texts_of


class Lines(TaskReader):
    """An instance a line, of one text by itself and one in a list."""

    def _read(self, file_path):
        for line in self.shard_iterable(self.read_files(file_path, self._lines)):
            texts = [TextField([Token(word) for word in line.split()]) for _ in range(2)]
            yield Instance({"text": texts[0], "texts": ListField(texts[1:])})

    def _lines(self, path, counts):
        for line in path.read_text().splitlines():
            counts["lines"] += 1
            yield line


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("three\n")
    return tmp_path


def test_every_text_gets_the_indexers(folder):
    indexers = {"words": SingleIdTokenIndexer()}
    instance = next(iter(Lines(token_indexers=indexers).read(folder)))
    assert instance["text"].token_indexers is instance["texts"][0].token_indexers is indexers
    assert list(Lines().token_indexers) == ["tokens"]


@pytest.mark.parametrize(
    ("most", "expected"),
    [(None, ["{0}/a: 2 lines", "{0}/b: 1 lines", "{0}: 2 files, 3 lines"]), (1, ["{0}/a: 1 lines"])],
)
def test_files_and_their_sum_are_logged(folder, caplog, most, expected):
    """Also if `max_instances` ends the reading."""
    with caplog.at_level(logging.INFO):
        assert len(list(Lines(max_instances=most).read(folder))) == (most or 3)
    messages = [record.getMessage() for record in caplog.records]
    assert [each for each in messages if "lines" in each] == [each.format(folder) for each in expected]


@pytest.mark.parametrize(
    ("tokenizer", "key", "value"),
    [
        ({"type": "elmo_spacy", "langage": "en"}, "tokenizer.langage", "'language'"),
        ({"type": "elmo_spacy", "language": "nolang"}, "tokenizer.language", "'nolang'"),
        ({"type": "elmo_spacey"}, "tokenizer", "elmo_spacy"),
    ],
)
def test_a_wrong_tokenizer(tokenizer, key, value):
    with pytest.raises(ConfigError) as caught:
        Lines.from_params(Params({"tokenizer": tokenizer}))
    assert caught.value.key == key
    assert value in str(caught.value)


def test_equal_texts_have_one_number():
    assert group_id("a") == group_id("a") != group_id("b")
    assert -(2**63) <= group_id("\ud800") < 2**63


def test_the_data_of_each_task_are_checked(folder):
    reader = MultiTaskDatasetReader({"first": Lines(), "second": Lines()})
    check_readable(reader, {"first": str(folder / "a"), "second": str(folder / "b")})
    with pytest.raises(InputError, match="nothing"):
        check_readable(reader, {"first": str(folder / "a"), "second": str(folder / "nothing")})


@pytest.mark.parametrize(
    ("task", "file"),
    [
        ("ner", "dev.conll"),
        ("srl", "dev.conll"),
        ("coref", "dev.conll"),
        ("squad", "dev.json"),
        ("sst", "dev.txt"),
        ("classification", "sst2/dev.tsv"),
    ],
)
def test_workers_share_the_records(task, file):
    """The questions of a passage, and the predicates of a sentence, stay together."""
    parameters = {"type": f"elmo_{task}"}
    if task == "classification":
        parameters = {"type": "elmo_classifier", "classes": ["0", "1"], "sentence1": "sentence"}

    def read(worker=None):
        reader = DatasetReader.from_params(Params(dict(parameters)))
        if worker is not None:
            reader._set_worker_info(WorkerInfo(2, worker))
        return [
            [[token.text for token in text] for text in texts_of([each])]
            for each in reader.read(str(bundled("fixtures") / task / file))
        ]

    shares = read(0), read(1)
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == sorted(read())
    assert not any(instance[0] in [other[0] for other in shares[1]] for instance in shares[0])
