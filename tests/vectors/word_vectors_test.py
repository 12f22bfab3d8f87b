from collections import Counter

import pytest
import torch

from elmo_tasks.vectors.encoder import in_contexts, out_of_context, sample_occurrences
from tests.vectors.examples import tiny_encoder

LINES = ["the cat saw Oslo", "", "The cat , the cat and a dog", "oslo is OSLO", "no more cat"]
WORDS = ["cat", "oslo", "Dog", "the", "absent"]


def test_alone(tmp_path):
    encoder = tiny_encoder(tmp_path)
    found = out_of_context(encoder, WORDS)
    assert [vectors.name for vectors in found] == encoder.names
    for row, vectors in enumerate(found):
        assert vectors.known.all()
        for word, vector in zip(WORDS, vectors.vectors, strict=True):
            (expected,) = encoder.encode([[word]])
            assert torch.allclose(vector, expected[row, 0], rtol=0, atol=1e-6)


def test_averaged_over_all_occurrences(tmp_path):
    """A word as it stands, or, if it never does, in any case."""
    positions = {
        "cat": [(0, 1), (2, 1), (2, 4), (4, 2)],
        "oslo": [(3, 0)],
        "Dog": [(2, 7)],
        "the": [(0, 0), (2, 3)],
    }
    encoder = tiny_encoder(tmp_path)
    lines = list(encoder.encode(map(str.split, LINES)))
    found = in_contexts(encoder, WORDS, LINES, limit=10, seed=1)
    for row, vectors in enumerate(found):
        assert vectors.known.tolist() == [True, True, True, True, False]
        for word, vector in zip(WORDS[:4], vectors.vectors, strict=False):
            expected = [lines[line][row, position] for line, position in positions[word]]
            assert torch.allclose(vector, torch.stack(expected).mean(dim=0), rtol=0, atol=1e-6)


def test_folded_case_has_all_cases():
    lines = ["OSLO and Oslo"]
    assert sample_occurrences(lines, ["oslo"], limit=5, seed=1) == {0: [(0, 0), (2, 0)]}
    assert sample_occurrences(lines, ["oslo", "Oslo"], limit=5, seed=1) == {0: [(0, 0), (2, 0), (2, 1)]}


def test_a_limit_draws_each_occurrence_with_the_same_chance():
    lines = ["a b a", "a", "b a a"]
    drawn = Counter()
    for seed in range(2000):
        positions = sample_occurrences(lines, ["a"], limit=2, seed=seed)
        kept = [(line, position) for line, words in positions.items() for position, _ in words]
        assert len(set(kept)) == 2
        drawn.update(kept)
    assert len(drawn) == 5
    # 2000 * 2 / 5, and four standard deviations
    assert all(abs(count - 800) < 90 for count in drawn.values())


@pytest.mark.parametrize("limit", [1, 3])
def test_the_seed_decides(limit):
    lines = ["a " * 50] * 4
    one, same, other = (sample_occurrences(lines, ["a"], limit=limit, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
