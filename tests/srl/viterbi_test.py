import itertools

import pytest
import torch

from elmo_tasks.data.tag_schemes import Scheme, TagError, to_spans
from elmo_tasks.srl.model import Iob2Viterbi

TAGS = ["O", "B-A", "I-A", "B-B", "I-C", "B-C"]


def best_by_brute_force(scores):
    paths = itertools.product(range(len(TAGS)), repeat=len(scores))
    return max(filter(possible, paths), key=lambda path: sum(scores[i, tag] for i, tag in enumerate(path)))


def possible(path):
    try:
        to_spans([TAGS[tag] for tag in path], Scheme.IOB2)
    except TagError:
        return False
    return True


def test_by_brute_force():
    scores = torch.randn(40, 4, len(TAGS), generator=torch.Generator().manual_seed(1)).log_softmax(dim=2)
    lengths = torch.arange(40) % 5
    found = Iob2Viterbi(TAGS)(scores, torch.arange(4) < lengths.unsqueeze(1))
    for row, length in enumerate(lengths.tolist()):
        assert tuple(found[row, :length].tolist()) == best_by_brute_force(scores[row, :length])
        assert not found[row, length:].any()


def test_only_iob2_where_all_scores_speak_against_it():
    scores = torch.zeros(1, 3, len(TAGS))
    scores[0, :, TAGS.index("I-A")] = 9.0
    found = Iob2Viterbi(TAGS)(scores, torch.ones(1, 3, dtype=torch.bool))
    assert [TAGS[tag] for tag in found[0]] == ["B-A", "I-A", "I-A"]


def test_one_token():
    scores = torch.tensor([[[0.0, 1.0, 5.0, 2.0, 4.0, 1.0]]])
    assert Iob2Viterbi(TAGS)(scores, torch.ones(1, 1, dtype=torch.bool)).tolist() == [[3]]


def test_impossible_tags():
    with pytest.raises(TagError, match="U-X"):
        Iob2Viterbi(["O", "U-X"])
