import numpy as np
import pytest
import torch
from torch.nn import functional as F

from elmo_tasks.common.files import bundled
from elmo_tasks.evaluation import probes
from elmo_tasks.evaluation.probes import TaggedSentence, fit, most_frequent_tag, read_tagged, tagging_probe
from elmo_tasks.vectors import VectorTable
from elmo_tasks.vectors.encoder import StaticVectors
from tests.errors import input_error
from tests.vectors.examples import tiny_encoder

TEXT = """\
# newdoc id = a
# sent_id = 1
# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_


1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_"""
TRAIN = [
    TaggedSentence(["the", "play", "was", "long"], ["DET", "NOUN", "AUX", "ADJ"]),
    TaggedSentence(["they", "play", "on"], ["PRON", "VERB", "ADP"]),
    TaggedSentence(["the", "play"], ["DET", "NOUN"]),
    TaggedSentence(["so", "long"], ["ADV", "INTJ"]),
]
DEV = [TaggedSentence(["they", "play", "long", "dramas", "here"], ["PRON", "VERB", "ADJ", "NOUN", "X"])]


@pytest.mark.parametrize(
    ("column", "tags"),
    [("upos", [["PRON", "AUX", "PART", "PUNCT"], ["INTJ"]]), ("xpos", [["PRP", "VBP", "RB", "."], ["UH"]])],
)
def test_words_and_tags(tmp_path, column, tags):
    (tmp_path / "a.conllu").write_text(TEXT)
    sentences = read_tagged(str(tmp_path), column=column)
    assert [sentence.words for sentence in sentences] == [["I", "do", "n't", "."], ["Yes"]]
    assert [sentence.tags for sentence in sentences] == tags


@pytest.mark.parametrize("mark", ["\t", " "])
def test_two_columns(tmp_path, mark):
    """A word may begin with `#`; a comment begins a sentence."""
    text = "# newdoc id = a\nI_PRON\n#_SYM\n\n#ff_X\nyou_PRON\n"
    (tmp_path / "a.txt").write_text(text.replace("_", mark))
    assert read_tagged(str(tmp_path), column="upos") == [
        TaggedSentence(["I", "#"], ["PRON", "SYM"]),
        TaggedSentence(["#ff", "you"], ["X", "PRON"]),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("\n# only a comment\n", "a.conllu"),
        ("1\tI\tPRON\n", "a.conllu, line 1"),
        ("1\tI\t_\t_\tPRP" + "\t_" * 5, "a.conllu, line 1"),
    ],
)
def test_errors(tmp_path, text, place):
    assert place in input_error(lambda path: read_tagged(path, column="upos"), tmp_path / "a.conllu", text)


def test_most_frequent_tag():
    """`play` is a NOUN, `long` an ADJ, which was seen first; unknown words are DET, the first of two."""
    assert most_frequent_tag(TRAIN, DEV) == 2
    assert most_frequent_tag(TRAIN, [TaggedSentence(["new", "new"], ["DET", "NOUN"])]) == 1


def test_a_classifier_of_one_hot_words_finds_their_most_frequent_tags(tmp_path):
    train = [*TRAIN, TaggedSentence(["long"], ["ADJ"])]
    words = list(dict.fromkeys(word for sentence in train for word in sentence.words))
    one_hot = StaticVectors(name="one-hot", table=VectorTable(words, np.eye(len(words), dtype=np.float32)))
    dev = [TaggedSentence(sentence.words[:3], sentence.tags[:3]) for sentence in (*train, *DEV)]
    assert tagging_probe(one_hot, train, dev, tmp_path) == {"one-hot": most_frequent_tag(train, dev)}


def test_every_layer_learns_its_training_data(tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "MAX_ITERATIONS", 20)
    encoder = tiny_encoder(tmp_path / "bilm")
    train = read_tagged(str(bundled("fixtures/evaluation/pos_train.conllu")), column="upos")[:10]
    once, again = (tagging_probe(encoder, train, train, tmp_path) for _ in range(2))
    assert list(once) == encoder.names
    assert all(correct > 0.6 * sum(len(sentence.words) for sentence in train) for correct in once.values())
    assert once == again


def test_unseen_tags_are_counted(tmp_path, caplog):
    tagging_probe(tiny_encoder(tmp_path), TRAIN, DEV, tmp_path)
    assert "1 words have a tag" in caplog.text


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_minimum_by_the_definition(monkeypatch, number):
    monkeypatch.setattr(probes, "TOLERANCE", 1e-6)
    monkeypatch.setattr(probes, "L2", 0.01)
    generator = np.random.default_rng(6)
    classes = generator.integers(number, size=150)
    # Features of very different sizes, one of them constant
    features = generator.normal(size=(150, 5)) + np.eye(3, 5)[classes]
    features = (features * [1, 100, 0.01, 1, 0] + [0, 5000, 0, 1, 7]).astype(np.float32)
    classifier = fit(features.copy(), classes, number)
    deviation = np.where(features.std(axis=0) > 0, features.std(axis=0), 1)
    scaled = (features.astype(float) - features.mean(axis=0, dtype=float)) / deviation
    # (classes, features and bias), by Newton's method on the definition
    weight = torch.zeros(number, 6, dtype=torch.double)
    inputs = torch.cat([torch.from_numpy(scaled), torch.ones(150, 1, dtype=torch.double)], dim=1)

    def loss(flat: torch.Tensor) -> torch.Tensor:
        weight = flat.view(number, 6)
        penalty = 0.01 / 2 * weight[:, :5].square().sum()
        return F.cross_entropy(inputs @ weight.T, torch.from_numpy(classes)) + penalty

    flat = weight.flatten()
    for _ in range(30):
        gradient = torch.autograd.functional.jacobian(loss, flat)
        hessian = torch.autograd.functional.hessian(loss, flat)
        flat = flat - torch.linalg.pinv(hessian) @ gradient
    expected = (inputs @ flat.view(number, 6).T).numpy()
    scores = features.astype(float) @ classifier.weight.numpy().T.astype(float) + classifier.bias.numpy()
    centred = [each - each.mean(axis=1, keepdims=True) for each in (scores, expected)]
    assert np.abs(centred[0] - centred[1]).max() < 0.01
    assert classifier(torch.from_numpy(features)).tolist() == expected.argmax(axis=1).tolist()
