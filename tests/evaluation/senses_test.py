import gzip
import json
from collections import Counter

import numpy as np
import pytest

from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.senses import (
    SenseProbe,
    SenseSentence,
    Target,
    read_first_senses,
    read_senses,
    sense_baseline,
    senses_by_frequency,
)
from elmo_tasks.vectors import WordTable
from elmo_tasks.vectors.encoder import StaticVectors
from tests.errors import input_error, mentions
from tests.vectors.examples import tiny_encoder

XML = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="handmade">
<text id="d000">
<sentence id="d000.s000">
<wf lemma="the" pos="DET">The</wf>
<instance id="d000.s000.t000" lemma="art" pos="NOUN">art</instance>
<wf lemma="of" pos="ADP">of</wf>
<instance id="d000.s000.t001" lemma="bell_ringing" pos="NOUN">bell ringing</instance>
<wf lemma="&amp;" pos="CONJ">&amp;</wf>
</sentence>
<sentence id="d000.s001">
<wf lemma="Łódź" pos="NOUN">Łódź</wf>
</sentence>
</text>
</corpus>
"""
KEY = "d000.s000.t000 art%1:09:00:: art%1:06:00::\nd000.s000.t001 bell_ringing%1:04:00::\n"
TRAIN = read_senses(str(bundled("fixtures/evaluation/wsd_train.jsonl")))
DEV = read_senses(str(bundled("fixtures/evaluation/wsd_dev.jsonl")))


@pytest.fixture
def xml(tmp_path):
    (tmp_path / "a.data.xml").write_text(XML, encoding="utf-8")
    (tmp_path / "a.gold.key.txt").write_text(KEY)
    return tmp_path / "a.data.xml"


@pytest.mark.parametrize("packed", [[], ["a.data.xml"], ["a.data.xml", "a.gold.key.txt"]])
def test_xml(xml, packed):
    for name in packed:
        file = xml.with_name(name)
        xml.with_name(f"{name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    for path in (xml.parent, xml if xml.exists() else xml.with_name("a.data.xml.gz")):
        assert read_senses(str(path)) == [
            SenseSentence(
                ["The", "art", "of", "bell", "ringing", "&"],
                [
                    Target(1, 2, "art.NOUN", ("art%1:09:00::", "art%1:06:00::")),
                    Target(3, 5, "bell_ringing.NOUN", ("bell_ringing%1:04:00::",)),
                ],
            ),
            SenseSentence(["Łódź"], []),
        ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</text>", "</txet>", "a.data.xml, line 14: found mismatched tag"),
        ("</corpus>\n", "", "a.data.xml, line 15: "),
        ("s000.t000", "s000.t009", "a.data.xml, line 10: found the instance {'id': 'd000.s000.t009'"),
        (' lemma="art"', "", ".gold.key.txt"),
        (">art<", "> <", "text, lemma, pos"),
    ],
)
def test_errors_in_xml(xml, old, new, message):
    assert message in input_error(read_senses, xml, XML.replace(old, new))


def test_keys(xml):
    key = xml.with_name("a.gold.key.txt")
    key.write_text("d000.s000.t000 x\n\nd000.s000.t001 y\n")
    assert [target.senses for target in read_senses(str(xml))[0].targets] == [("x",), ("y",)]
    key.write_text("d000.s000.t000\n")
    with pytest.raises(InputError, match=r"a.gold.key.txt, line 1: .*'d000.s000.t000'"):
        read_senses(str(xml))
    key.unlink()
    with pytest.raises(InputError, match=r"a.gold.key.txt: found no file"):
        read_senses(str(xml))


def test_jsonl(tmp_path):
    assert len(TRAIN) == 30
    words = ["She", "opened", "an", "account", "at", "the", "bank", "on", "the", "corner", "."]
    assert TRAIN[0] == SenseSentence(words, [Target(6, 7, "bank", ("money",))])
    line = json.dumps({"lemma": "b", "tokens": ["a", "b"], "index": 1, "sense": "x"})
    (tmp_path / "a.jsonl").write_text(f"{line}\n\n{line}\n\n")
    assert len(read_senses(str(tmp_path / "a.jsonl"))) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": 3}, "line 1: found index is 3, of 3 tokens"),
        ({"index": "1"}, "found index is '1'"),
        ({"index": True}, "found index is True"),
        ({"tokens": "a b c"}, "found tokens is no list"),
        ({"sense": ["x"]}, "found lemma is 'b', sense is ['x']"),
        ({"sense": None}, "found no 'sense'"),
    ],
)
def test_errors_in_jsonl(tmp_path, change, message):
    content = {"lemma": "b", "tokens": ["a", "b", "c"], "index": 1, "sense": "x"} | change
    text = json.dumps({key: value for key, value in content.items() if value is not None})
    assert message in input_error(read_senses, tmp_path / "a.jsonl", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "a.jsonl: found no word"), ("lemma", "line 1: found no JSON (Expecting value")],
)
def test_files_without_senses(tmp_path, text, message):
    assert message in input_error(read_senses, tmp_path / "a.jsonl", text)


def test_first_senses(tmp_path):
    path = tmp_path / "index.sense"
    path.write_text("art%1:06:00:: 02743547 2 5\nart%1:04:00:: 00933420 1 9\nwell%5:00:00:good:00 1 1 2\n\n")
    assert read_first_senses(str(path)) == {"art.NOUN": "art%1:04:00::", "well.ADJ": "well%5:00:00:good:00"}
    message = input_error(read_first_senses, path, "art 1 2\n")
    assert mentions(message, "index.sense, line 1", "'art 1 2'")


def test_against_averages_and_cosines_by_hand(tmp_path):
    encoder = tiny_encoder(tmp_path)

    def vectors(sentences: list[SenseSentence], row: int) -> list[tuple[str, str, np.ndarray]]:
        encoded = encoder.encode(sentence.words for sentence in sentences)
        return [
            (target.lemma, target.senses[0], vectors[row, target.start].double().numpy())
            for (_, [target]), vectors in zip(sentences, encoded, strict=True)
        ]

    probe = SenseProbe(encoder=encoder, first_senses={})
    probe.train(TRAIN)
    correct = probe.correct(DEV)
    assert list(correct) == encoder.names
    for row, name in enumerate(encoder.names):
        train, dev = vectors(TRAIN, row), vectors(DEV, row)
        means = {
            key: np.mean([vector for *other, vector in train if tuple(other) == key], axis=0)
            for key in {(lemma, sense) for lemma, sense, _ in train}
        }
        counts = Counter((lemma, sense) for lemma, sense, _ in train)
        expected = 0
        for lemma, sense, vector in dev:
            cosines = {
                own: mean @ vector / np.linalg.norm(mean) / np.linalg.norm(vector)
                for (of, own), mean in means.items()
                if of == lemma
            }
            # Senses with equal means are distinguished by their frequency.
            order = {own: (-round(cosines[own], 5), -counts[lemma, own]) for own in cosines}
            expected += min(order, key=lambda own: order[own]) == sense
        assert correct[name] == expected


def test_several_senses_and_targets():
    """An occurrence with two senses counts for both; either answer is correct."""
    table = StaticVectors(name="t", table=WordTable(["a", "b", "c"], np.eye(3, dtype=np.float32)))
    train = [
        SenseSentence(["x", "a"], [Target(0, 1, "x", ("one", "two"))]),
        SenseSentence(["x", "b"], [Target(0, 1, "x", ("two",))]),
        SenseSentence(["x", "c", "x"], [Target(0, 1, "x", ("three",)), Target(2, 3, "x", ("three",))]),
    ]
    assert senses_by_frequency(train) == {"x": ["two", "three", "one"]}
    probe = SenseProbe(encoder=table, first_senses={})
    probe.train(train)
    # Nearest to a: one; to b: two; an unknown word: the most frequent
    dev = [
        SenseSentence([word, "x"], [Target(1, 2, "x", senses)])
        for word, senses in (("a", ("one",)), ("b", ("three", "two")), ("z", ("two",)), ("z", ("one",)))
    ]
    assert probe.correct(dev) == {"t": 3}


def test_a_lemma_without_training_has_its_first_sense(tmp_path):
    encoder = tiny_encoder(tmp_path)
    new, other = (
        SenseSentence([lemma, "words"], [Target(0, 1, lemma, (sense,))])
        for lemma, sense in (("new", "first"), ("other", "any"))
    )
    dev = [new, other, *DEV[:1]]
    correct = []
    for first in ({}, {"new": "first", "bank": "never"}):
        probe = SenseProbe(encoder=encoder, first_senses=first)
        probe.train(TRAIN)
        correct.append(probe.correct(dev)["layer 0"])
        assert sense_baseline(TRAIN, dev, first) == (1 + bool(first), 2, 3)
    assert correct[1] == correct[0] + 1


def test_baseline():
    frequent = {"bank": "money", "match": "game", "spring": "season"}
    targets = [sentence.targets[0] for sentence in DEV]
    expected = sum(target.senses[0] == frequent[target.lemma] for target in targets)
    assert sense_baseline(TRAIN, DEV, {}) == (expected, 0, 12)
