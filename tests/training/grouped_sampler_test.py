import random
from itertools import groupby

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Token
from allennlp.data.fields import LabelField, TextField
from allennlp.data.samplers import BatchSampler

from elmo_tasks.training import GroupedBucketSampler

LENGTHS = {7: 5, -3: 30, 12: 6, 4: 31, 9: 5}
"""Tokens of the instances of each group."""


def instances() -> list[Instance]:
    found = [
        Instance(
            {
                "text": TextField([Token("x")] * length),
                "group": LabelField(group, skip_indexing=True),
            }
        )
        for group, length in LENGTHS.items()
        for _ in range(4)
    ]
    random.Random(0).shuffle(found)
    return found


def sampler(**options) -> GroupedBucketSampler:
    settings = {"type": "elmo_grouped_bucket", "group": "group", "sorting_keys": ["text"], **options}
    return BatchSampler.from_params(Params(settings))


@pytest.mark.parametrize("shuffle", [False, True])
def test_groups_stand_together_by_length(shuffle):
    random.seed(1)
    data = instances()
    batches = list(sampler(batch_size=6, shuffle=shuffle).get_batch_indices(data))
    assert sorted(index for batch in batches for index in batch) == list(range(len(data)))
    assert sorted(map(len, batches)) == [2, 6, 6, 6]
    labels = [[data[index]["group"].label for index in batch] for batch in batches]
    for batch in labels:
        runs = [label for label, _ in groupby(batch)]
        assert len(runs) == len(set(runs)) <= 2 + (len(batch) == 6)
        assert len({LENGTHS[label] > 10 for label in batch}) == 1 or not shuffle
    if not shuffle:
        # Short ones first, and a group that a batch cuts goes on in the next.
        runs = [label for label, _ in groupby(label for batch in labels for label in batch)]
        assert len(runs) == len(LENGTHS)
        assert [LENGTHS[label] for label in runs] == sorted(LENGTHS.values())


def test_a_group_that_is_no_field():
    with pytest.raises(
        ConfigurationError, match="group: found 'paragraf', expected one of the fields text, g"
    ):
        list(sampler(batch_size=6, group="paragraf").get_batch_indices(instances()))


def test_no_instances():
    assert list(sampler(batch_size=6).get_batch_indices([])) == []


def test_unknown_key():
    with pytest.raises(ConfigurationError, match="unknown key 'groups'; did you mean 'group'"):
        sampler(batch_size=6, groups="group")
