from collections import Counter

import pytest
from allennlp.data import Vocabulary
from nltk import Tree

from elmo_tasks.common.files import bundled
from elmo_tasks.data.formats.trees import parse
from elmo_tasks.sst.reader import SstReader, SstSentence
from tests.records import labels_of, read_with, words_of

GOOD = "(3 (2 It) (4 (4 (2 is) (3 good)) (2 .)))"
NEUTRAL = "(2 (3 (2 A) (4 gem)) (1 (1 flawed) (2 now)))"
BAD = "(0 Awful)"
TREES = f"{GOOD}\n\n{NEUTRAL}\n{BAD}\n"


def read(path, content=TREES, **parameters):
    return read_with(SstReader, path, content, **parameters)


def texts(instances):
    return list(zip(map(" ".join, words_of(instances, "tokens")), labels_of(instances), strict=True))


def test_sentences(tmp_path):
    instances = read(tmp_path / "a")
    assert texts(instances) == [("It is good .", "3"), ("A gem flawed now", "2"), ("Awful", "0")]
    assert instances[0]["metadata"].metadata == SstSentence(["It", "is", "good", "."])


def test_phrases_of_so_many_tokens(tmp_path):
    """Sentences may be shorter."""
    assert texts(read(tmp_path / "a", min_phrase_tokens=2)) == [
        ("It is good .", "3"),
        ("is good .", "4"),
        ("is good", "4"),
        ("A gem flawed now", "2"),
        ("A gem", "3"),
        ("flawed now", "1"),
        ("Awful", "0"),
    ]


@pytest.mark.parametrize(
    ("granularity", "labels", "classes"),
    [
        (5, ["3", "2", "0"], ["0", "1", "2", "3", "4"]),
        (3, ["positive", "neutral", "negative"], ["negative", "neutral", "positive"]),
        (2, ["positive", "negative"], ["negative", "positive"]),
    ],
)
def test_granularity_and_the_order_of_classes(tmp_path, granularity, labels, classes):
    instances = read(tmp_path / "a", granularity=granularity)
    assert [label for _, label in texts(instances)] == labels
    vocab = Vocabulary.from_instances(instances)
    assert list(vocab.get_token_to_index_vocabulary("labels")) == classes


def test_a_word_counts_once_for_each_sentence(tmp_path):
    """The sentence itself may be left out, but not its phrases."""
    counts = {}
    for granularity in (5, 2):
        counter = counts[granularity] = {"tokens": Counter(), "labels": Counter()}
        instances = read(tmp_path / "a", f"{GOOD}\n{NEUTRAL}\n", min_phrase_tokens=1, granularity=granularity)
        reader = SstReader()
        for instance in instances:
            reader.apply_token_indexers(instance)
            instance.count_vocab_items(counter)
        assert set(counter["tokens"].values()) == {1}
    assert set(counts[5]["tokens"]) == {"It", "is", "good", ".", "A", "gem", "flawed", "now"}
    # `now` and `It` are neutral by themselves, but for the phrases that they are in.
    assert set(counts[2]["tokens"]) == set(counts[5]["tokens"])


@pytest.mark.parametrize(
    ("line", "word"), [("(0 Bad)", "Bad"), (" ( 0\tBad ) ", "Bad"), ("(2 8\u00a01/2)", "8\u00a01/2")]
)
def test_blanks_and_tabs_separate(line, word):
    """A no-break space is part of a word, as in the treebank."""
    assert parse(line).words == [word]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("-LRB-", "("),
        ("1\\/2\\/3", "1/2/3"),
        ("\\*\\*", "**"),
        ("c:\\temp", "c:\\temp"),
        ("-LRB-s", "-LRB-s"),
    ],
)
def test_escapes(written, word):
    assert parse(f"(2 (2 a) (2 {written}))").words == ["a", word]


@pytest.mark.parametrize("file", ["train.txt", "dev.txt", "test.txt"])
def test_equals_nltk(file):
    lines = (bundled("fixtures/sst") / file).read_text().splitlines()
    for line in lines:
        tree, reference = parse(line), Tree.fromstring(line)
        assert len(tree.words) == len(reference.leaves())
        assert [(phrase.label, phrase.end - phrase.start) for phrase in tree.phrases] == [
            (int(subtree.label()), len(subtree.leaves())) for subtree in reference.subtrees()
        ]


def test_every_sentence_has_an_instance_for_prediction(tmp_path):
    """A neutral one, too, and one without a tree."""
    reader = SstReader(granularity=2, min_phrase_tokens=1)
    reader.every_record = True
    (tmp_path / "a").write_text("(2 (2 It) (2 runs))\nIt's fine.\n\n(4 (3 So) (2 so))\n")
    instances = list(reader.read(str(tmp_path / "a")))
    assert words_of(instances, "tokens") == [["It", "runs"], ["It", "'s", "fine", "."], ["So", "so"]]
    assert not any("label" in instance.fields for instance in instances)
