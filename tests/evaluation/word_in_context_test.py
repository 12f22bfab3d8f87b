import json

import numpy as np
import pytest
import torch

from elmo_tasks.common.files import bundled
from elmo_tasks.evaluation.word_in_context import Use, choose_threshold, read_use_pairs, use_cosines
from tests.errors import input_error
from tests.vectors.examples import tiny_encoder

HEADER = "index\tword\tsentence1\tsentence2\tstart1\tstart2\tend1\tend2\tlabel\n"


def test_a_pair_of_uses_has_tokens_and_a_place(tmp_path):
    text = HEADER + '0\tplay\t"They don\'t play," he said.\tA play-off.\t12\t2\t16\t6\t1\n\n'
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


def test_words_of_the_fixtures_have_their_places():
    pairs = read_use_pairs(str(bundled("fixtures/evaluation/wic_train.tsv")))
    assert len(pairs) == 20
    for pair in pairs:
        (first,), (second,) = (use.words[use.start : use.end] for use in pair[:2])
        assert first[:2].lower() in (second[:2].lower(), "ru", "ra")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.tsv: found no pair"),
        (HEADER, "a.tsv: found no pair"),
        ("word\tsentence1\na\ta b\n", "line 2: found no 'sentence2'"),
        (HEADER + "0\ta\n", "line 2: found 2 columns, expected 9"),
        (HEADER + "0\ta\ta b\ta c\t0\t0\t1\t1\tT\n", "line 2: found the label 'T', expected 0 or 1"),
        ('{"label": true}', "line 1: found no 'sentence1'"),
        (
            HEADER + "0\ta\ta b\ta c\t0\t9\t1\t10\t1\n",
            "start1 0, start2 9",
        ),
        (HEADER + "0\ta\ta b\ta c\tx\t0\t1\t1\t1\n", "at start1 x"),
    ],
)
def test_errors(tmp_path, text, message):
    assert message in input_error(read_use_pairs, tmp_path / "a.tsv", text)


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


@pytest.mark.parametrize(
    ("data", "gold", "message"),
    [
        ("play\tN\t1-0\tWe play\tPlay\n", "T\nF\n", "a.gold.txt: found 2 answers, expected 1"),
        ("play\tN\t1-0\tWe play\tPlay\n", "1\n", "a.gold.txt, line 1: found the label '1', expected T or F"),
        ("play\tN\t1-1\tWe play\tPlay\n", "T\n", "a.data.txt, line 1: found '1-1'"),
        ("play\tN\t1-0\tWe play\n", "T\n", "a.data.txt, line 1: found 4 columns, expected 5"),
    ],
)
def test_errors_of_two_files(tmp_path, data, gold, message):
    (tmp_path / "a.gold.txt").write_text(gold)
    assert message in input_error(read_use_pairs, tmp_path / "a.data.txt", data)


def test_data_without_their_answers(tmp_path):
    message = input_error(read_use_pairs, tmp_path / "a.data.txt", "play\tN\t1-0\tWe play\tPlay\n")
    assert "a.gold.txt: found no file, expected one beside a.data.txt" in message
