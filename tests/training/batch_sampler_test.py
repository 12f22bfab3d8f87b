import pytest
import torch.distributed as dist
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import find_open_port
from allennlp.data import Instance, Token
from allennlp.data.fields import TextField
from allennlp.data.samplers import BatchSampler, BucketBatchSampler
from torch.multiprocessing import ProcessRaisedException

from elmo_tasks.training import ElmoBucketSampler, samplers
from tests.forked import FORKED, spawn


def instances(count: int) -> list[Instance]:
    return [
        Instance({"tokens": TextField([Token("a")] * (1 + i % 7), token_indexers={})}) for i in range(count)
    ]


def test_alone_it_is_the_stock_sampler():
    data, options = instances(23), {"batch_size": 5, "shuffle": False}
    found = list(ElmoBucketSampler(**options).get_batch_indices(data))
    assert found == list(BucketBatchSampler(**options).get_batch_indices(data))


def worker(rank: int, port: int, counts: list[int], results) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=len(counts), rank=rank)
    sampler = ElmoBucketSampler(batch_size=4, shuffle=False)
    results[rank] = list(sampler.get_batch_indices(instances(counts[rank])))
    dist.destroy_process_group()


def test_workers_have_the_same_number_of_batches():
    """9 and 8 sentences are 3 and 2 batches of 4: the third is made by halving, none is left out."""
    with FORKED.Manager() as manager:
        results = manager.dict()
        spawn(worker, args=(find_open_port(), [9, 8], results), nprocs=2)
        batches = dict(results)
    assert [len(batch) for batch in batches[0]] == [4, 4, 1]
    assert [len(batch) for batch in batches[1]] == [2, 2, 4]
    for rank, count in enumerate([9, 8]):
        assert sorted(i for batch in batches[rank] for i in batch) == list(range(count))


def few(rank: int, port: int, counts: list[int], results) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=len(counts), rank=rank)
    data = instances(counts[rank])
    training, evaluation = (ElmoBucketSampler(batch_size=1, shuffle=shuffle) for shuffle in (True, False))
    before = training.get_num_batches(data)
    batches = list(training.get_batch_indices(data))
    if rank == 0:  # a progress bar
        evaluation.get_num_batches(data)
    results[rank] = batches, list(evaluation.get_batch_indices(data)), before, training.get_num_batches(data)
    dist.destroy_process_group()


def test_fewer_sentences_than_batches():
    """One of 3 and one of 2, in batches of one: in training none is left out. The schedule counts alike."""
    with FORKED.Manager() as manager:
        results = manager.dict()
        spawn(few, args=(find_open_port(), [3, 2], results), nprocs=2)
        found = dict(results)
    training, evaluation, *numbers = found[1]
    assert (len(training), {index for (index,) in training}) == (3, {0, 1})
    assert sorted(evaluation) == [[0], [1]]
    assert numbers == [3, 3]
    training, evaluation, *numbers = found[0]
    assert sorted(training) == sorted(evaluation) == [[0], [1], [2]]
    assert numbers == [3, 3]


def none(rank: int, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=2, rank=rank)
    ElmoBucketSampler(batch_size=1).get_num_batches(instances(1 - rank))


def test_a_worker_that_has_nothing_to_read():
    with pytest.raises(ProcessRaisedException, match="process 2 of 2 found no instance"):
        spawn(none, args=(find_open_port(),), nprocs=2)


def test_many_fewer_sentences_than_batches(monkeypatch):
    monkeypatch.setattr(samplers, "_in_a_group", lambda: True)
    monkeypatch.setattr(samplers, "dist_reduce", lambda number, _: 5)
    batches = list(ElmoBucketSampler(batch_size=1).get_batch_indices(instances(2)))
    assert sorted(batches) == [[0], [0], [0], [1], [1]] or sorted(batches) == [[0], [0], [1], [1], [1]]


def test_unknown_key():
    with pytest.raises(ConfigurationError, match="unknown key 'batchsize'; did you mean 'batch_"):
        BatchSampler.from_params(Params({"type": "elmo_bucket", "batchsize": 4}))
