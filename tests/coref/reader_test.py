import json
import logging

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary

from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.data.formats import Fit
from elmo_tasks.data.formats.sample import sample_of
from tests.coref.documents_test import ANA, conll


def test_the_instance(tmp_path):
    two_speakers = conll("a/(1)", "b/-", speaker="Omar").replace("Omar", "Petra", 1)
    (tmp_path / "a").write_text(two_speakers + ANA)
    first, second = CorefReader().read(tmp_path / "a")
    assert [[token.text for token in sentence] for sentence in first["tokens"]] == [["a"], ["b"]]
    assert first["speakers"].tensor.tolist() == [1, 2]
    assert second["speakers"].tensor.tolist() == [0] * 7
    assert first["genre"].label == "nw"
    assert first["metadata"].metadata.clusters == [[(0, 0)]]


def test_mentions_over_the_end_of_a_sentence_are_counted(tmp_path, caplog):
    (tmp_path / "a").write_text('{"sentences": [["a", "b"], ["c"]], "clusters": [[[1, 2], [0, 1], [2, 2]]]}')
    with caplog.at_level(logging.INFO):
        list(CorefReader().read(tmp_path / "a"))
    assert ", 1 mentions over" in caplog.text


def test_singletons_are_kept_or_dropped_and_counted(tmp_path, caplog):
    (tmp_path / "a").write_text(ANA + conll("a/(1)|(2) b/(1) c/(2) d/(3)"))
    with caplog.at_level(logging.INFO):
        kept = [instance["metadata"].metadata.clusters for instance in CorefReader().read(tmp_path / "a")]
    assert kept == [[[(0, 0), (2, 2), (5, 5)], [(2, 3)]], [[(0, 0), (1, 1), (2, 2)], [(3, 3)]]]
    counts = "2 documents, 3 sentences, 11 tokens, 0 documents without gold clusters, 4 clusters, 8 mentions"
    assert f"{counts}, 2 singletons kept, 1 clusters joined" in caplog.text
    reader = DatasetReader.from_params(Params({"type": "elmo_coref", "singletons": False}))
    with caplog.at_level(logging.INFO):
        dropped = [instance["metadata"].metadata.clusters for instance in reader.read(tmp_path / "a")]
    assert dropped == [[[(0, 0), (2, 2), (5, 5)]], [[(0, 0), (1, 1), (2, 2)]]]
    assert "2 clusters, 6 mentions, 2 singletons dropped" in caplog.text


@pytest.mark.parametrize(
    ("pattern", "id", "genre"),
    [
        (None, "nw/wsj/00/wsj_0001", "nw"),
        (None, "nw", "nw"),
        (None, "nwsomething", "@@UNKNOWN@@"),
        (None, "1023_bleak_house_brat", "@@UNKNOWN@@"),
        ("^GUM_([a-z]+)_", "GUM_fiction_lunre", "fiction"),
        ("^GUM_([a-z]+)_", "nw/wsj", "@@UNKNOWN@@"),
        ("^(?:([a-z]{2})/)?", "doc1", "@@UNKNOWN@@"),
    ],
)
def test_genres(tmp_path, pattern, id, genre):
    (tmp_path / "a").write_text(json.dumps({"doc_key": id, "sentences": [["a"]]}))
    reader = CorefReader(**({"genre_pattern": pattern} if pattern else {}))
    (instance,) = reader.read(tmp_path / "a")
    assert instance["genre"].label == genre


def test_all_unknown_genres_have_one_id(tmp_path, caplog):
    (tmp_path / "a").write_text(conll("a/-", id="nw/1") + conll("a/-", id="other"))
    known, unknown = CorefReader().read(tmp_path / "a")
    vocab = Vocabulary.from_instances([known, unknown])
    assert vocab.get_vocab_size("genres") == 3
    (tmp_path / "b").write_text(conll("a/-", id="bc/1"))
    (new,) = CorefReader().read(tmp_path / "b")
    genres = []
    for instance in (known, unknown, new):
        instance["genre"].index(vocab)
        genres.append(int(instance["genre"].as_tensor({})))
    assert genres == [2, 1, 1]
    assert "namespace" not in caplog.text


@pytest.mark.parametrize(
    ("values", "fit"),
    [
        ({"clusters": [[[0, 0]]]}, Fit.CERTAIN),
        ({"ner": [[[0, 0, "PER"]]], "clusters": [[[0, 0]]]}, Fit.CERTAIN),
        ({"ner": [[[0, 0, "PER"]]], "clusters": []}, Fit.POSSIBLE),  # entities of DyGIE++
        ({"ner": [], "clusters": []}, Fit.CERTAIN),
        ({}, Fit.LIKELY),
    ],
)
def test_documents_with_entities_alone_are_hardly_of_coreference(tmp_path, values, fit):
    (tmp_path / "a").write_text(json.dumps({"doc_key": "d", "sentences": [["a"]]} | values))
    assert CorefReader.find(sample_of(str(tmp_path / "a"))).fit is fit
