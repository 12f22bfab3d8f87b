import json
import random
from collections import Counter, defaultdict
from copy import deepcopy
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import find_open_port
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.fields import LabelField, TextField
from allennlp.data.samplers import BatchSampler, BucketBatchSampler
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor
from torch.multiprocessing import ProcessRaisedException

import elmo_tasks  # noqa: F401
from elmo_tasks.common.files import bundled
from elmo_tasks.ner.reader import NerReader
from elmo_tasks.training.sampling import ElmoBucketSampler, GroupedBucketSampler, drawn_indices
from tests.conftest import SMALL_NER, SMALL_NER_ELMO
from tests.forked import FORKED, spawn
from tests.language_model.runs import train_nodes, weights_of
from tests.ner.archives import DEV

GROUPS = {7: 5, -3: 30, 12: 6, 4: 31, 9: 5}
"""The tokens of the instances of each group."""


def instances(count: int) -> list[Instance]:
    return [Instance({"tokens": TextField([Token("a")] * (1 + i % 7), {})}) for i in range(count)]


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


def test_sentences_that_drop_last_has_left_out():
    """20 and 7 sentences are 5 batches of 4, and one batch, of which 4 are made."""
    worker = partial(batch, drop_last=True)
    batches = in_two_workers(worker, [20, 7])
    assert [len(batch) for batch in batches[0]] == [4] * 5
    assert [len(batch) for batch in batches[1]] == [1] * 4
    with pytest.raises(ProcessRaisedException, match="process 2 of 2"):
        in_two_workers(worker, [8, 3])


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


FIXTURES = bundled("fixtures").resolve()
FILES = {"elmo_ner": "ner/train.conll", "elmo_sst": "sst/dev.txt", "elmo_squad": "squad/train.json"}


def sampled(reader: str, fraction: float, *, seed: int = 1) -> DatasetReader:
    block = {"type": "elmo_sample", "reader": {"type": reader}, "fraction": fraction, "seed": seed}
    return DatasetReader.from_params(Params(block))


def texts(reader: DatasetReader, path: str) -> list[str]:
    """Returns the content of the instances; a data loader's worker leaves indexers to the main process."""
    instances = list(reader.read(FIXTURES / path))
    for instance in instances:
        reader.apply_token_indexers(instance)
    return list(map(str, instances))


@pytest.mark.parametrize(("reader", "path"), FILES.items())
def test_a_part_of_each_reader(reader, path):
    whole = texts(DatasetReader.by_name(reader)(), path)
    small, large = (texts(sampled(reader, fraction), path) for fraction in (0.1, 0.5))
    assert (len(small), len(large)) == (round(0.1 * len(whole)), round(0.5 * len(whole)))
    indices = [whole.index(text) for text in large]
    assert indices == sorted(indices)
    assert indices != list(range(len(indices)))
    assert set(small) < set(large)
    assert texts(sampled(reader, 0.5), path) == large
    assert texts(sampled(reader, 0.5, seed=2), path) != large
    assert texts(sampled(reader, 1.0), path) == whole


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9, 1.0])
def test_a_part_of_each_class(fraction):
    classes = ["ok"] * 95 + ["bad"] * 5 + ["two"] * 2 + ["one"]
    random.Random(3).shuffle(classes)
    larger: set[int] = set(range(len(classes)))
    for part in (1.0, fraction, fraction / 3):
        drawn = drawn_indices(classes, part, seed=2)
        assert drawn == drawn_indices(classes, part, seed=2) <= larger
        assert part == 1.0 or drawn != drawn_indices(classes, part, seed=3)
        counts = Counter(classes[index] for index in drawn)
        assert counts["ok"] == round(part * 95)
        assert abs(counts["bad"] - part * 5) < 1
        if part < 1.0:
            assert 1 <= counts["bad"] <= 4
            assert counts["two"] == counts["one"] == 1
        larger = drawn


def test_the_rest_has_each_class(tmp_path):
    lines = [f"a fine day {i},{'bad' if i % 20 == 0 else 'ok'}\n" for i in range(100)]
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(lines))
    block = {"type": "elmo_classifier", "classes": ["bad", "ok"]}
    sample = {"type": "elmo_sample", "reader": block, "fraction": 0.9, "seed": 2, "stratified": True}
    parts = [
        list(DatasetReader.from_params(Params({**deepcopy(sample), "rest": rest})).read(tmp_path / "a.csv"))
        for rest in (False, True)
    ]
    assert [Counter(each["label"].label for each in part) for part in parts] == [
        {"ok": 86, "bad": 4},
        {"ok": 9, "bad": 1},
    ]
    numbers = [[int(each["sentence1"].tokens[-1].text) for each in part] for part in parts]
    assert sorted(numbers[0] + numbers[1]) == list(range(100))
    assert all(part == sorted(part) for part in numbers)


def test_copies_of_a_text_are_drawn_together(tmp_path):
    lines = [f"a fine day {i % 40},{'bad' if i % 4 == 0 else 'ok'}\n" for i in range(100)]
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(lines))
    block = {"type": "elmo_classifier", "classes": ["bad", "ok"]}
    sample = {"type": "elmo_sample", "reader": block, "fraction": 0.9, "seed": 2, "stratified": True}
    drawn, held_out = (
        [
            each["sentence1"].tokens[-1].text
            for each in DatasetReader.from_params(Params({**deepcopy(sample), "rest": rest})).read(
                tmp_path / "a.csv"
            )
        ]
        for rest in (False, True)
    )
    assert len(drawn) + len(held_out) == 100
    assert len(set(held_out)) == 4
    assert not set(drawn) & set(held_out)


def test_the_vocabulary_has_all_words_of_the_drawn_phrases():
    block = {"type": "elmo_sst", "min_phrase_tokens": 2}
    reader = DatasetReader.from_params(
        Params({"type": "elmo_sample", "reader": block, "fraction": 0.1, "seed": 13})
    )
    instances = list(reader.read(FIXTURES / "sst/train.txt"))
    counter = defaultdict(Counter)
    for instance in instances:
        reader.apply_token_indexers(instance)
        instance.count_vocab_items(counter)
    words = {token.text for instance in instances for token in instance["tokens"].tokens}
    assert set(counter["tokens"]) == words


def test_workers_draw_from_their_shares():
    whole = texts(DatasetReader.by_name("elmo_ner")(), FILES["elmo_ner"])
    shares = []
    for worker in range(2):
        reader = sampled("elmo_ner", 0.25)
        reader._set_worker_info(WorkerInfo(num_workers=2, id=worker))
        shares.append(texts(reader, FILES["elmo_ner"]))
        assert set(shares[-1]) < set(whole[worker::2])
    assert [len(share) for share in shares] == [25, 25]


@pytest.mark.slow
def test_a_model_that_was_trained_on_a_part_predicts(tmp_path):
    path = str(bundled("training_configs/ner.jsonnet").resolve())
    plain = Params.from_file(path).as_dict(quiet=True)["dataset_reader"]
    sample = {"type": "elmo_sample", "reader": plain, "fraction": 0.2, "seed": 1}
    readers = {"dataset_reader": sample, "validation_dataset_reader": plain}
    config = Params.from_file(path, json.dumps(SMALL_NER | {"trainer.num_epochs": 1} | readers))
    train_model(config, tmp_path / "run", file_friendly_logging=True)
    archive = load_archive(tmp_path / "run/model.tar.gz")
    assert type(archive.dataset_reader) is type(archive.validation_dataset_reader) is NerReader
    for choice in ("validation", "train"):
        predictor = Predictor.from_path(tmp_path / "run" / "model.tar.gz", dataset_reader_to_load=choice)
        assert predictor.predict("Ana flew .")["tokens"] == ["Ana", "flew", "."]
        assert isinstance(predictor._dataset_reader, NerReader)


@pytest.mark.slow
def test_two_machines_that_have_not_as_many_batches(ner_config, tmp_path):
    """They are processes here. Evaluation shows its progress in the first alone."""
    _, *sentences = Path(DEV).read_text().split("\n\n")  # the first is the line of a document
    for name, number in (("train", 9), ("dev", 3)):
        (tmp_path / name).write_text("\n\n".join(sentences[:number]) + "\n")
    overrides = SMALL_NER_ELMO | {
        "model.hidden_sizes": [8],
        "trainer.num_epochs": 3,
        "train_data_path": str(tmp_path / "train"),
        "validation_data_path": str(tmp_path / "dev"),
        "data_loader.batch_sampler.batch_size": 1,
        "validation_data_loader.batch_sampler.batch_size": 1,
        "trainer.learning_rate_scheduler": {"type": "linear_with_warmup", "warmup_steps": 2},
    }
    first, second = train_nodes(tmp_path, overrides, config=str(ner_config))
    for name, weight in weights_of(first).items():
        assert torch.equal(weights_of(second)[name], weight), name
