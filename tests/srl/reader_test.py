import logging

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.tag_schemes import TagError
from elmo_tasks.srl.reader import SrlProposition, SrlReader
from tests.srl.files import CONLL, CONLL_2005, JSON_LINES, PROPOSITIONS, lines


def read(path, content, **options):
    path.write_text(content)
    return list(SrlReader(**options).read(str(path)))


def found(instances):
    return [(each["predicate"].sequence_index, each["metadata"].metadata.gold_tags) for each in instances]


def test_the_instances(tmp_path):
    instances = read(tmp_path / "a", CONLL)
    assert found(instances) == PROPOSITIONS
    for instance in instances:
        assert list(instance["tags"]) == instance["metadata"].metadata.gold_tags
    assert instances[2]["metadata"].metadata == SrlProposition(["A", "visit"], 1, ["B-ARG1", "B-V"])
    assert [token.text for token in instances[2]["tokens"]] == ["A", "visit"]
    sentences = [instance["sentence"].label for instance in instances]
    assert sentences[0] == sentences[1] != sentences[2]


@pytest.mark.parametrize("content", [CONLL, lines(JSON_LINES)])
def test_verbs_only(tmp_path, content, caplog):
    with caplog.at_level(logging.INFO):
        assert found(read(tmp_path / "a", content, verbs_only=True)) == PROPOSITIONS[:2]
    assert "3 sentences, 2 of them without predicates (left out), 2 predicates and 1 that" in caplog.text


@pytest.mark.parametrize("content", [CONLL, lines(JSON_LINES)])
def test_sentences_without_predicates(tmp_path, content, caplog):
    with caplog.at_level(logging.INFO):
        instances = read(tmp_path / "a", content, keep_without_predicates=True)
    assert found(instances) == [*PROPOSITIONS[:2], (-1, ["O", "O"]), PROPOSITIONS[2]]
    assert instances[2]["metadata"].metadata.predicate is None
    assert "3 sentences, 1 of them without predicates (kept), 3 predicates" in caplog.text


def test_a_folder_with_skeletons(tmp_path, caplog):
    (tmp_path / "a.gold_conll").write_text(CONLL)
    (tmp_path / "a.gold_skel").write_text("d 0 0 [WORD]\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.conll").write_text(CONLL)
    with caplog.at_level(logging.INFO):
        instances = list(SrlReader().read(str(tmp_path)))
    assert found(instances) == PROPOSITIONS * 2
    assert "1 skeleton files (*_skel) left out" in caplog.text
    with pytest.raises(InputError, match=r"found only skeleton files, expected files with words"):
        list(SrlReader().read(str(tmp_path / "*_skel")))


def test_sentences_with_other_words_have_other_numbers():
    reader = SrlReader()
    texts = (["a", "b"], ["a\0b"], ["a b"], ['a", "b'])
    assert len({reader.text_to_instance(words, 0)["sentence"].label for words in texts}) == len(texts)


def test_instances_of_the_fixtures():
    instances = list(SrlReader().read(bundled("fixtures/srl/train.conll")))
    assert len(instances) == 123
    labels = {tag[2:] for _, tags in found(instances) for tag in tags}
    assert {"ARG0", "V", "C-V", "C-ARG1", "R-ARG0", "ARGM-TMP"} <= labels


def error_of(tmp_path, content, **options):
    with pytest.raises(InputError) as error:
        read(tmp_path / "some.txt", content, **options)
    assert str(tmp_path / "some.txt") in str(error.value)
    return str(error.value)


def test_no_sentence_and_no_predicate(tmp_path):
    assert "found no sentence, expected at least one" in error_of(tmp_path, "#begin document (d)\n\n")
    error = error_of(tmp_path, lines(JSON_LINES[1:2]))
    assert "found 1 sentences, 1 of them without predicates (left out), 0 predicates, expected" in error
    assert "some.txt, line 1: found predicates without parts of speech" in error_of(
        tmp_path, CONLL_2005, columns=["word", "predicate", "arguments"], verbs_only=True
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["word", "predicate"]}, "columns: found .* expected a list of names with 'word', 'pred"),
        ({"columns": "word"}, "columns is 'word', expected a list"),
        ({"delimiter": ""}, "delimiter is '', expected a text that is not empty, or null"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        SrlReader(**options)


def test_from_params_and_a_misspelt_key():
    reader = DatasetReader.from_params(Params({"type": "elmo_srl", "verbs_only": True}))
    assert isinstance(reader.token_indexers["tokens"], SingleIdTokenIndexer)
    with pytest.raises(ConfigurationError, match="unknown key 'verb_only'; did you mean 'verbs_only'"):
        DatasetReader.from_params(Params({"type": "elmo_srl", "verb_only": True}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 0), "found no words"),
        ((["a"], 1), "found the predicate 1, expected one of 1 words"),
        ((["a"], 0, ["O", "O"]), "found 2 tags, expected 1"),
    ],
)
def test_text_to_instance(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        SrlReader().text_to_instance(*arguments)
    with pytest.raises(TagError, match="I-X"):
        SrlReader().text_to_instance(["a", "b"], 0, ["I-X", "O"])
    assert "tags" not in SrlReader().text_to_instance(["a"], 0).fields


def test_a_worker_takes_all_predicates_of_a_sentence(tmp_path):
    (tmp_path / "a").write_text(CONLL)
    shares = []
    for worker in (0, 1):
        reader = SrlReader()
        reader._set_worker_info(WorkerInfo(2, worker))
        shares.append(found(reader.read(str(tmp_path / "a"))))
    assert shares == [PROPOSITIONS[:2], PROPOSITIONS[2:]]


def test_a_batch_and_its_vocabulary(tmp_path, caplog):
    (tmp_path / "a").write_text(CONLL)
    loader = MultiProcessDataLoader(SrlReader(), str(tmp_path / "a"), batch_size=3)
    vocab = Vocabulary.from_instances(loader.iter_instances())
    loader.index_with(vocab)
    (batch,) = loader
    assert batch["predicate"].tolist() == [[1], [3], [1]]
    assert batch["sentence"].dtype == torch.long
    tags = vocab.get_token_to_index_vocabulary("labels")
    assert tags["O"] == 0
    # I-ARG0 does not occur.
    assert {tag[2:] for tag in tags if tag != "O"} == {"ARG0", "ARG1", "ARG2", "C-V", "V"}
    assert len(tags) == 1 + 2 * 5
    assert batch["tags"][0].tolist() == [tags[tag] for tag in PROPOSITIONS[0][1]]
    unknown = SrlReader().text_to_instance(["a", "b"], 0, ["B-V", "B-ARG9"])
    unknown["tags"].index(vocab)
    assert unknown["tags"]._indexed_labels == [tags["B-V"], 0]
    assert "does not have B-ARG9" in caplog.text
