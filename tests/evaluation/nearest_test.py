import numpy as np
import pytest

from elmo_tasks.evaluation import words as nearest
from elmo_tasks.evaluation.words import Occurrence, nearest_tokens, text_blocks
from elmo_tasks.vectors import encoder
from tests.vectors.examples import tiny_encoder

LINES = [
    "They play cards on Thursday",
    "",
    "The play was long and they play on",
    "A dog ran off",
    "They play cards on Thursday",
    "Nobody saw the play",
]


@pytest.mark.parametrize("block", [1, 7, 4096])
@pytest.mark.parametrize("count", [3, 100])
def test_against_all_tokens_one_by_one(tmp_path, monkeypatch, block, count):
    monkeypatch.setattr(nearest, "BLOCK_TOKENS", block)
    monkeypatch.setattr(encoder, "POSITIONS", 12)
    tiny = tiny_encoder(tmp_path)
    queries = [
        Occurrence(LINES[0].split(), 1),
        Occurrence(["We", "play", "here"], 1),
        Occurrence(LINES[2].split(), 6),
    ]
    found = nearest_tokens(tiny, queries, text_blocks(tiny, iter(LINES)), count=count)
    encoded = [vectors.double().numpy() for vectors in tiny.encode(map(str.split, LINES))]
    for query, by_row in zip(queries, found, strict=True):
        (own,) = tiny.encode([query.words])
        for row, neighbors in enumerate(by_row):
            wanted = own[row, query.position].double().numpy()
            cosines = {
                (line, position): vector @ wanted / np.linalg.norm(vector) / np.linalg.norm(wanted)
                for line, vectors in enumerate(encoded)
                for position, vector in enumerate(vectors[row])
                if (LINES[line].split(), position) != tuple(query)
            }
            assert len(neighbors) == min(count, len(cosines))
            found = [(line, position) for line, position, _ in neighbors]
            assert len(set(found)) == len(found)
            best = sorted(cosines.values(), reverse=True)[:count]
            assert [cosines[each] for each in found] == pytest.approx(best, abs=1e-5)
            assert [cosine for *_, cosine in neighbors] == pytest.approx(best, abs=1e-5)


def test_the_first_of_equally_near_tokens(tmp_path):
    tiny = tiny_encoder(tmp_path)
    (by_row,) = nearest_tokens(tiny, [Occurrence(["play"], 0)], text_blocks(tiny, LINES), count=4)
    # The token layer knows no context.
    assert [neighbor[:2] for neighbor in by_row[0]] == [(0, 1), (2, 1), (2, 6), (4, 1)]


def test_a_long_sentence_is_cut_around_the_marked_word():
    assert Occurrence(["They", "play", "on"], 1).marked() == "They **play** on"
    words = [str(number) for number in range(30)]
    assert Occurrence(words, 15).marked() == f"… {' '.join(words[5:15])} **15** {' '.join(words[16:26])} …"
