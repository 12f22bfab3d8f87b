import itertools
import math

import pytest
import torch

from elmo_tasks.data.tag_schemes import Scheme, allowed_transitions
from elmo_tasks.ner.crf import ConstrainedCrf

TAGS = ["O", "B-PER", "I-PER", "L-PER", "U-PER"]
LENGTHS = [4, 1, 0, 3]


@pytest.fixture
def crf():
    torch.manual_seed(3)
    allowed = allowed_transitions(TAGS, Scheme.BIOUL)
    crf = ConstrainedCrf(start=allowed.start, end=allowed.end, transitions=allowed.transitions)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(std=2.0)
    return crf


@pytest.fixture
def emissions():
    return 3 * torch.randn(4, 4, len(TAGS), generator=torch.Generator().manual_seed(1))


MASK = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)


def scores_of_all(crf, emissions, length):
    """The score of every sequence that BIOUL allows, by brute force."""
    allowed = allowed_transitions(TAGS, Scheme.BIOUL)
    start, end, between = (scores.tolist() for scores in crf(emissions, MASK)[2:])
    scores = {}
    for path in itertools.product(range(len(TAGS)), repeat=length):
        steps = list(itertools.pairwise(path))
        if not (allowed.start[path[0]] and allowed.end[path[-1]]):
            continue
        if not all(allowed.transitions[pair] for pair in steps):
            continue
        scores[path] = (
            start[path[0]]
            + end[path[-1]]
            + sum(between[i][j] for i, j in steps)
            + sum(emissions[step][tag].item() for step, tag in enumerate(path))
        )
    return scores


def log_sum(scores):
    return math.log(sum(math.exp(score) for score in scores))


def test_log_likelihood_by_brute_force(crf, emissions):
    tags = torch.tensor([[1, 2, 3, 0], [4, 0, 0, 0], [0, 0, 0, 0], [0, 1, 3, 0]])
    likelihood = crf(emissions, MASK).log_likelihood(tags)
    for row, length in enumerate(LENGTHS):
        if length:
            scores = scores_of_all(crf, emissions[row], length)
            expected = scores[tuple(tags[row, :length].tolist())] - log_sum(scores.values())
            assert likelihood[row].item() == pytest.approx(expected, abs=1e-4)
    # Nothing is left for a sequence that is no BIOUL.
    impossible = crf(emissions[:1], MASK[:1]).log_likelihood(torch.tensor([[2, 0, 4, 0]]))
    assert impossible.exp() == 0


def test_decode_by_brute_force(crf, emissions):
    decoded = crf(emissions, MASK).best()
    for row, length in enumerate(LENGTHS):
        if length:
            scores = scores_of_all(crf, emissions[row], length)
            assert tuple(decoded[row, :length].tolist()) == max(scores, key=scores.get)
        assert not decoded[row, length:].any()


@pytest.mark.parametrize("padding", [0, 3])
def test_no_score_makes_up_for_an_impossible_transition(crf, padding):
    """As those of a training that diverges."""
    emissions = torch.zeros(1, 3 + padding, len(TAGS))
    emissions[0, :3, 2] = 1e6
    emissions[0, 3:, 0] = 1e6
    mask = torch.arange(3 + padding).unsqueeze(0) < 3
    assert crf(emissions, mask).best().tolist() == [[1, 2, 3] + [0] * padding]


def test_span_probabilities_by_brute_force(crf, emissions):
    decoded = crf(emissions, MASK).best()
    spans = [
        [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
        for length in LENGTHS
    ]
    found = crf(emissions, MASK).span_probabilities(decoded, spans)
    assert found[2] == []
    for row, length in enumerate(LENGTHS):
        if not length:
            continue
        scores = scores_of_all(crf, emissions[row], length)
        log_z = log_sum(scores.values())
        for (start, end), probability in zip(spans[row], found[row], strict=True):
            wanted = tuple(decoded[row, start:end].tolist())
            expected = math.exp(
                log_sum(score for path, score in scores.items() if path[start:end] == wanted) - log_z
            )
            assert probability == pytest.approx(expected, rel=1e-5)


def test_gradients_reach_possible_transitions_only(crf, emissions):
    tags = torch.tensor([[1, 2, 3, 0]])
    crf(emissions[:1], MASK[:1]).log_likelihood(tags).sum().backward()
    allowed = allowed_transitions(TAGS, Scheme.BIOUL).transitions
    gradient = crf.crf["parametrizations"]["transitions"].original.grad
    assert torch.isfinite(gradient).all()
    assert not gradient[~allowed].any()
    assert gradient[allowed].any()
