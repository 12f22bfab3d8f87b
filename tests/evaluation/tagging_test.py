import numpy as np

from elmo_tasks.common.files import bundled
from elmo_tasks.evaluation import tagging as linear_classifier
from elmo_tasks.evaluation.tagging import TaggedSentence, most_frequent_tag, read_conllu, tagging_probe
from elmo_tasks.vectors import WordTable
from elmo_tasks.vectors.static_vectors import StaticVectors
from tests.vectors.encoders import tiny_encoder

TRAIN = [
    TaggedSentence(["the", "play", "was", "long"], ["DET", "NOUN", "AUX", "ADJ"]),
    TaggedSentence(["they", "play", "on"], ["PRON", "VERB", "ADP"]),
    TaggedSentence(["the", "play"], ["DET", "NOUN"]),
    TaggedSentence(["so", "long"], ["ADV", "INTJ"]),
]
DEV = [TaggedSentence(["they", "play", "long", "dramas", "here"], ["PRON", "VERB", "ADJ", "NOUN", "X"])]


def test_most_frequent_tag():
    """`play` is a NOUN, `long` the first it was seen as; unknown words are DET, the first of two."""
    assert most_frequent_tag(TRAIN, DEV) == 2
    assert most_frequent_tag(TRAIN, [TaggedSentence(["new", "new"], ["DET", "NOUN"])]) == 1


def test_a_linear_classifier_of_words_finds_their_most_frequent_tags(tmp_path):
    train = [*TRAIN, TaggedSentence(["long"], ["ADJ"])]
    words = list(dict.fromkeys(word for sentence in train for word in sentence.words))
    one_hot = StaticVectors(name="one-hot", table=WordTable(words, np.eye(len(words), dtype=np.float32)))
    dev = [TaggedSentence(sentence.words[:3], sentence.tags[:3]) for sentence in (*train, *DEV)]
    assert tagging_probe(one_hot, train, dev, tmp_path) == {"one-hot": most_frequent_tag(train, dev)}


def test_every_layer_learns_its_training_data(tmp_path, monkeypatch):
    monkeypatch.setattr(linear_classifier, "MAX_ITERATIONS", 20)
    encoder = tiny_encoder(tmp_path / "bilm")
    train = read_conllu(str(bundled("fixtures/evaluation/pos_train.conllu")), column="upos")[:10]
    once, again = (tagging_probe(encoder, train, train, tmp_path) for _ in range(2))
    assert list(once) == encoder.names
    assert all(correct > 0.6 * sum(len(sentence.words) for sentence in train) for correct in once.values())
    assert once == again


def test_unseen_tags_are_counted(tmp_path, caplog):
    encoder = tiny_encoder(tmp_path)
    tagging_probe(encoder, TRAIN, DEV, tmp_path)
    assert "1 words have a tag that is not in the training data" in caplog.text
