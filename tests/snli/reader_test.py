import logging
from functools import partial

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader

from elmo_tasks.data.formats.tables import ENTAILMENT_LABELS
from elmo_tasks.snli.reader import SnliPair, SnliReader
from tests.records import json_lines, labels_of, read_with

SNLI = [
    {"gold_label": "neutral", "sentence1": "Two cats sleep.", "sentence2": "They are black."},
    {"gold_label": "-", "sentence1": "Two cats sleep.", "sentence2": "They dream."},
    {"gold_label": "contradiction", "sentence1": "Two cats sleep.", "sentence2": "There's a dog."},
]
WORDS = [
    (["Two", "cats", "sleep", "."], ["They", "are", "black", "."]),
    (["Two", "cats", "sleep", "."], ["There", "'s", "a", "dog", "."]),
]


read = partial(read_with, SnliReader)


def words(instances):
    return [
        tuple([token.text for token in instance[side]] for side in ("premise", "hypothesis"))
        for instance in instances
    ]


def test_the_instances(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        instances = read(tmp_path / "a", json_lines(*SNLI))
    assert words(instances) == WORDS
    assert labels_of(instances) == ["neutral", "contradiction"]
    assert instances[1]["metadata"].metadata == SnliPair(*WORDS[1])
    assert [len(instance["metadata"]) for instance in instances] == [4, 5]
    counts = "2 instances (contradiction 1, neutral 1), 1 records with the label '-' left out"
    assert counts in caplog.text
    loader = MultiProcessDataLoader(SnliReader(), str(tmp_path / "a"), batch_size=2)
    vocab = Vocabulary.from_instances(loader.iter_instances())
    loader.index_with(vocab)
    (batch,) = loader
    assert batch["premise"]["tokens"]["tokens"].shape == (2, 4)
    assert batch["hypothesis"]["tokens"]["tokens"].shape == (2, 5)
    assert batch["label"].tolist() == [1, 2]
    # All labels, in their own order, not by frequency
    assert tuple(vocab.get_index_to_token_vocabulary("labels").values()) == ENTAILMENT_LABELS


NUMBERED = """{"premise": P, "hypothesis": H, "label": 1}
{"premise": "a", "hypothesis": "b", "label": -1}
"""
SICK = "pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n1\tP\tH\tNEUTRAL"
HEADERLESS = {
    "columns": ["premise", "hypothesis", "label"],
    "classes": ["yes", "no"],
    "label_names": {"0": "no", "1": "yes"},
}


@pytest.mark.parametrize(
    ("content", "parameters", "label", "ids"),
    [
        ('{"premise": P, "hypothesis": H, "label": "neutral", "id": 3}', {}, "neutral", {"id": 3}),
        ('{"uid": "u", "context": P, "hypothesis": H, "label": "n"}', {}, "neutral", {"uid": "u"}),
        ('[{"guid": "g",\n"premise": P, "hypothesis": H, "gold_label": "n"}]', {}, "neutral", {"guid": "g"}),
        (NUMBERED, {"label_names": dict(zip("012", ENTAILMENT_LABELS, strict=True))}, "neutral", {}),
        ('{"premise": P, "hypothesis": H, "label": "b"}', {"classes": ["a", "b"]}, "b", {}),
        ("index\tsentence1\tsentence2\tlabel\n0\tP\tH\tneutral", {"quotes": True}, "neutral", {"index": "0"}),
        (SICK, {"quotes": True}, "neutral", {"pair_ID": "1"}),
        ("P,H,1\n", HEADERLESS, "yes", {}),
        ("h,p,l\nH,P,neutral\n", {"premise": "p", "hypothesis": "h", "label": "l"}, "neutral", {}),
    ],
)
def test_other_sets(tmp_path, content, parameters, label, ids):
    content = content.replace("P", '"Two cats sleep."').replace("H", '"They are black."')
    (instance,) = read(tmp_path / "a", content, **parameters)
    assert words([instance]) == WORDS[:1]
    assert labels_of([instance]) == [label]
    assert instance["metadata"].metadata.ids == ids
    labels_of_vocab = Vocabulary.from_instances([instance]).get_token_to_index_vocabulary("labels")
    assert list(labels_of_vocab) == parameters.get("classes", list(ENTAILMENT_LABELS))


def test_text_to_instance_and_parameters():
    reader = SnliReader()
    instance = reader.text_to_instance("It's late.", ["A", "b c"])
    assert words([instance]) == [(["It", "'s", "late", "."], ["A", "b c"])]
    assert set(instance.fields) == {"premise", "hypothesis", "metadata"}
    with pytest.raises(ConfigurationError, match="hypothesis"):
        reader.text_to_instance("It's late.", " ")
    with pytest.raises(ConfigurationError, match="'-'"):
        reader.text_to_instance("A", "B", "-")
    with pytest.raises(ConfigurationError, match="tokeniser"):
        DatasetReader.from_params(Params({"type": "elmo_snli", "tokeniser": "spacy"}))
    # The former name of the key
    with pytest.raises(ConfigurationError, match=r"spaCy.*'en_no_such'"):
        DatasetReader.from_params(Params({"type": "elmo_snli", "spacy_model": "en_no_such"}))
