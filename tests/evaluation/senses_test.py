import gzip
import json
from collections import Counter

import numpy as np
import pytest
import torch

from elmo_tasks.common.files import bundled
from elmo_tasks.evaluation.probes import (
    SenseSentence,
    Target,
    Use,
    choose_threshold,
    read_first_senses,
    read_senses,
    read_use_pairs,
    sense_probe,
    senses_by_frequency,
    use_cosines,
)
from elmo_tasks.vectors import VectorTable
from elmo_tasks.vectors.encoder import StaticVectors
from tests.errors import input_error
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
USE_COLUMNS = "index\tword\tsentence1\tsentence2\tstart1\tstart2\tend1\tend2\tlabel\n"
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


def test_jsonl(tmp_path):
    assert len(TRAIN) == 30
    words = ["She", "opened", "an", "account", "at", "the", "bank", "on", "the", "corner", "."]
    assert TRAIN[0] == SenseSentence(words, [Target(6, 7, "bank", ("money",))])
    line = json.dumps({"lemma": "b", "tokens": ["a", "b"], "index": 1, "sense": "x"})
    (tmp_path / "a.jsonl").write_text(f"{line}\n\n{line}\n\n")
    assert len(read_senses(str(tmp_path / "a.jsonl"))) == 2


def test_first_senses(tmp_path):
    path = tmp_path / "index.sense"
    path.write_text("art%1:06:00:: 02743547 2 5\nart%1:04:00:: 00933420 1 9\nwell%5:00:00:good:00 1 1 2\n\n")
    assert read_first_senses(str(path)) == {"art.NOUN": "art%1:04:00::", "well.ADJ": "well%5:00:00:good:00"}
    assert "index.sense, line 1" in input_error(read_first_senses, path, "art 1 2\n")


def test_against_averages_and_cosines_by_hand(tmp_path):
    encoder = tiny_encoder(tmp_path)

    def vectors(sentences: list[SenseSentence], row: int) -> list[tuple[str, str, np.ndarray]]:
        encoded = encoder.encode(sentence.words for sentence in sentences)
        return [
            (target.lemma, target.senses[0], vectors[row, target.start].double().numpy())
            for (_, [target]), vectors in zip(sentences, encoded, strict=True)
        ]

    correct = sense_probe(encoder, TRAIN, DEV, {})
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
    table = StaticVectors(name="t", table=VectorTable(["a", "b", "c"], np.eye(3, dtype=np.float32)))
    train = [
        SenseSentence(["x", "a"], [Target(0, 1, "x", ("one", "two"))]),
        SenseSentence(["x", "b"], [Target(0, 1, "x", ("two",))]),
        SenseSentence(["x", "c", "x"], [Target(0, 1, "x", ("three",)), Target(2, 3, "x", ("three",))]),
    ]
    assert senses_by_frequency(train) == {"x": ["two", "three", "one"]}
    # Nearest to a: one; to b: two; an unknown word: the most frequent
    dev = [
        SenseSentence([word, "x"], [Target(1, 2, "x", senses)])
        for word, senses in (("a", ("one",)), ("b", ("three", "two")), ("z", ("two",)), ("z", ("one",)))
    ]
    assert sense_probe(table, train, dev, {}) == {"t": 3}


def test_a_pair_of_uses_has_tokens_and_a_place(tmp_path):
    text = USE_COLUMNS + '0\tplay\t"They don\'t play," he said.\tA play-off.\t12\t2\t16\t6\t1\n\n'
    (tmp_path / "a.tsv").write_text(text)
    (pair,) = read_use_pairs(str(tmp_path))
    assert pair.first == Use(['"', "They", "do", "n't", "play", ",", '"', "he", "said", "."], 4, 5)
    # The token that has the word
    assert pair.second.words[pair.second.start] in ("play", "play-off")
    assert pair.same is True


def test_published_layouts(tmp_path):
    """WiC's two files and SuperGLUE's JSON Lines."""
    use = {"word": "play", "idx": 0, "start1": 3, "start2": 2, "end1": 7, "end2": 6}
    line = json.dumps({**use, "sentence1": "We play.", "sentence2": "A play here.", "label": True})
    files = {
        "dev.data.txt": "play\tN\t1-0\tWe play .\tPlay it , now\nbank\tN\t0-1\tBanks lend\tA bank\n",
        "dev.gold.txt": "T\nF\n",
        "val.jsonl": line,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert read_use_pairs(str(tmp_path)) == [
        (Use(["We", "play", "."], 1, 2), Use(["Play", "it", ",", "now"], 0, 1), True),
        (Use(["Banks", "lend"], 0, 1), Use(["A", "bank"], 1, 2), False),
        (Use(["We", "play", "."], 1, 2), Use(["A", "play", "here", "."], 1, 2), True),
    ]


USE = "play\tN\t1-0\tWe play\tPlay\n"
OUTSIDE = '{"lemma": "b", "tokens": ["a", "b"], "index": 2, "sense": "x"}'


@pytest.mark.parametrize(
    ("read", "name", "text", "place"),
    [
        (read_senses, "a.data.xml", XML.replace("</text>", "</txet>"), "a.data.xml, line 14"),
        (read_senses, "a.data.xml", XML.replace("s000.t000", "s000.t009"), "a.data.xml, line 10"),
        (read_senses, "a.data.xml", XML.replace(">art<", "> <"), "a.data.xml, line 10"),
        (read_senses, "b.data.xml", XML, "b.gold.key.txt"),
        (read_senses, "a.jsonl", "", "a.jsonl"),
        (read_senses, "a.jsonl", OUTSIDE, "a.jsonl, line 1"),
        (read_use_pairs, "a.tsv", USE_COLUMNS, "a.tsv"),
        (read_use_pairs, "a.tsv", "word\tsentence1\na\ta b\n", "line 2"),
        (read_use_pairs, "a.tsv", USE_COLUMNS + "0\ta\ta b\ta c\t0\t0\t1\t1\tT1\n", "line 2"),
        (read_use_pairs, "a.data.txt", 2 * USE, "a.gold.txt"),
        (read_use_pairs, "a.data.txt", USE.replace("1-0", "1-1"), "a.data.txt, line 1"),
    ],
)
def test_errors_name_the_file_and_the_line(xml, read, name, text, place):
    xml.with_name("a.gold.txt").write_text("T\n")
    assert place in input_error(read, xml.with_name(name), text)


def test_cosines(tmp_path):
    encoder = tiny_encoder(tmp_path)
    pairs = read_use_pairs(str(bundled("fixtures/evaluation/wic_dev.tsv")))
    found = use_cosines(encoder, pairs)
    assert found.shape == (len(encoder.names), len(pairs))
    for i, pair in enumerate(pairs):
        one, two = (
            next(encoder.encode([use.words]))[:, use.start : use.end].double().numpy().mean(axis=1)
            for use in pair[:2]
        )
        for row in range(len(encoder.names)):
            expected = one[row] @ two[row] / np.linalg.norm(one[row]) / np.linalg.norm(two[row])
            assert float(found[row, i]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_threshold_against_all_thresholds(seed):
    generator = torch.Generator().manual_seed(seed)
    number = int(torch.randint(1, 12, (), generator=generator))
    # Few values, so that there are ties
    cosines = torch.randint(-4, 5, (number,), generator=generator).double() / 4
    same = torch.rand(number, generator=generator) < 0.5
    possible = [-np.inf, *np.arange(-1.125, 1.2, 0.25), np.inf]
    counts = [int(((cosines >= threshold) == same).sum()) for threshold in possible]
    found = choose_threshold(cosines, same)
    assert found.correct == max(counts) == int(((cosines >= found.cosine) == same).sum())
    # The lowest of the best, which differ in their answers
    best = min(threshold for threshold, count in zip(possible, counts, strict=True) if count == found.correct)
    assert torch.equal(cosines >= found.cosine, cosines >= best)
