import random
from itertools import groupby

import pytest
import torch.distributed as dist
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import find_open_port
from allennlp.data import Instance, Token
from allennlp.data.fields import LabelField, TextField
from allennlp.data.samplers import BatchSampler, BucketBatchSampler
from torch.multiprocessing import ProcessRaisedException

from elmo_tasks.training import ElmoBucketSampler, GroupedBucketSampler, sampling
from tests.forked import FORKED, spawn

GROUPS = {7: 5, -3: 30, 12: 6, 4: 31, 9: 5}
"""The tokens of the instances of each group."""


def instances(count: int) -> list[Instance]:
    return [
        Instance({"tokens": TextField([Token("a")] * (1 + i % 7), token_indexers={})}) for i in range(count)
    ]


def test_alone_it_is_the_stock_sampler():
    data, options = instances(23), {"batch_size": 5, "shuffle": False}
    batches = list(ElmoBucketSampler(**options).get_batch_indices(data))
    assert batches == list(BucketBatchSampler(**options).get_batch_indices(data))


def join_group(rank: int, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=2, rank=rank)


def in_two_workers(worker, counts: list[int]) -> dict:
    with FORKED.Manager() as manager:
        results = manager.dict()
        spawn(worker, args=(find_open_port(), counts, results), nprocs=2)
        return dict(results)


def batch(rank: int, port: int, counts: list[int], results, drop_last: bool = False) -> None:
    join_group(rank, port)
    sampler = ElmoBucketSampler(batch_size=4, shuffle=False, drop_last=drop_last)
    results[rank] = list(sampler.get_batch_indices(instances(counts[rank])))
    dist.destroy_process_group()


def test_workers_have_the_same_number_of_batches():
    """9 and 8 sentences are 3 and 2 batches of 4: the third is made by halving, none is left out."""
    batches = in_two_workers(batch, [9, 8])
    assert [len(batch) for batch in batches[0]] == [4, 4, 1]
    assert [len(batch) for batch in batches[1]] == [2, 2, 4]
    for rank, count in enumerate([9, 8]):
        assert sorted(i for batch in batches[rank] for i in batch) == list(range(count))


def batch_full(*arguments) -> None:
    batch(*arguments, drop_last=True)


def test_sentences_that_drop_last_has_left_out():
    """20 and 7 sentences are 5 batches of 4, and one batch, of which 4 are made."""
    batches = in_two_workers(batch_full, [20, 7])
    assert [len(batch) for batch in batches[0]] == [4] * 5
    assert [len(batch) for batch in batches[1]] == [1] * 4
    with pytest.raises(ProcessRaisedException, match="process 2 of 2"):
        in_two_workers(batch_full, [8, 3])


def batch_few(rank: int, port: int, counts: list[int], results) -> None:
    join_group(rank, port)
    data = instances(counts[rank])
    training, evaluation = (ElmoBucketSampler(batch_size=1, shuffle=shuffle) for shuffle in (True, False))
    before = training.get_num_batches(data)
    batches = list(training.get_batch_indices(data))
    if rank == 0:  # a progress bar
        evaluation.get_num_batches(data)
    results[rank] = batches, list(evaluation.get_batch_indices(data)), before, training.get_num_batches(data)
    dist.destroy_process_group()


def test_fewer_sentences_than_batches():
    """3 and 2 sentences in batches of one: training leaves out none. The schedule counts the same."""
    results = in_two_workers(batch_few, [3, 2])
    training, evaluation, *numbers = results[1]
    assert (len(training), {index for (index,) in training}) == (3, {0, 1})
    assert sorted(evaluation) == [[0], [1]]
    assert numbers == [3, 3]
    training, evaluation, *numbers = results[0]
    assert sorted(training) == sorted(evaluation) == [[0], [1], [2]]
    assert numbers == [3, 3]


def read_nothing(rank: int, port: int) -> None:
    join_group(rank, port)
    ElmoBucketSampler(batch_size=1).get_num_batches(instances(1 - rank))


def test_a_worker_that_has_nothing_to_read():
    with pytest.raises(ProcessRaisedException, match="process 2 of 2"):
        spawn(read_nothing, args=(find_open_port(),), nprocs=2)


def test_many_fewer_sentences_than_batches(monkeypatch):
    monkeypatch.setattr(sampling, "is_distributed", lambda: True)
    monkeypatch.setattr(sampling, "dist_reduce", lambda number, _: 5)
    batches = list(ElmoBucketSampler(batch_size=1).get_batch_indices(instances(2)))
    assert sorted(batches) == [[0], [0], [0], [1], [1]] or sorted(batches) == [[0], [0], [1], [1], [1]]


def grouped_instances() -> list[Instance]:
    ordered = [
        Instance({"text": TextField([Token("x")] * length), "group": LabelField(group, skip_indexing=True)})
        for group, length in GROUPS.items()
        for _ in range(4)
    ]
    random.Random(0).shuffle(ordered)
    return ordered


def grouped(**options) -> GroupedBucketSampler:
    settings = {"type": "elmo_grouped_bucket", "group": "group", "sorting_keys": ["text"], **options}
    return BatchSampler.from_params(Params(settings))


@pytest.mark.parametrize("shuffle", [False, True])
def test_groups_stand_together_by_length(shuffle):
    random.seed(1)
    data = grouped_instances()
    batches = list(grouped(batch_size=6, shuffle=shuffle).get_batch_indices(data))
    assert sorted(index for batch in batches for index in batch) == list(range(len(data)))
    assert sorted(map(len, batches)) == [2, 6, 6, 6]
    labels = [[data[index]["group"].label for index in batch] for batch in batches]
    for labels_of_batch in labels:
        runs = [label for label, _ in groupby(labels_of_batch)]
        assert len(runs) == len(set(runs)) <= 2 + (len(labels_of_batch) == 6)
        assert len({GROUPS[label] > 10 for label in labels_of_batch}) == 1 or not shuffle
    if not shuffle:
        # Short ones first; a group that is cut by a batch continues in the next one.
        runs = [label for label, _ in groupby(label for batch in labels for label in batch)]
        assert len(runs) == len(GROUPS)
        assert [GROUPS[label] for label in runs] == sorted(GROUPS.values())
    assert list(grouped(batch_size=6).get_batch_indices([])) == []


def test_a_group_that_is_no_field():
    with pytest.raises(ConfigurationError, match="group: 'paragraf'"):
        list(grouped(batch_size=6, group="paragraf").get_batch_indices(grouped_instances()))
