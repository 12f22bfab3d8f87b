import json
from collections import Counter, defaultdict

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import DatasetReader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

import elmo_tasks  # noqa: F401
from elmo_tasks.common.files import bundled
from elmo_tasks.ner import NerReader
from elmo_tasks.training.sampling import SampleReader
from tests.conftest import SMALL_NER

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


def test_the_first_of_the_drawn_instances():
    drawn = sampled("elmo_ner", 0.5)
    first = SampleReader(reader=drawn.wrapped_reader, fraction=0.5, seed=drawn.seed, max_instances=3)
    assert texts(first, FILES["elmo_ner"]) == texts(drawn, FILES["elmo_ner"])[:3]
