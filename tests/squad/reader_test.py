import json
import logging
from collections import Counter
from itertools import chain

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.samplers import BatchSampler

from elmo_tasks.squad.dataset import Answer
from elmo_tasks.squad.reader import NO_SPAN, SquadReader
from tests.squad.archives import DEV, UNANSWERABLE

PASSAGE = "In 1998\u20132001 Zoë's team-mate won (about) US$300 at St. Ives; it's 5/6 of the pot."


def answer(text: str) -> Answer:
    return Answer(text, PASSAGE.index(text))


def words_of(field) -> list[str]:
    return [token.text for token in field]


def instance_of(*texts: str, **options):
    return SquadReader(**options).text_to_instance(PASSAGE, "How much?", [answer(text) for text in texts])


def test_words_are_split_where_answers_end():
    instance = SquadReader().text_to_instance(PASSAGE, "Who was it (in the end)?")
    assert " ".join(words_of(instance["passage"])) == (
        "In 1998 \u2013 2001 Zoë 's team - mate won ( about ) US $ 300 at St. Ives ; it 's 5 / 6 of the pot ."
    )
    assert " ".join(words_of(instance["question"])) == "Who was it ( in the end ) ?"
    assert all(PASSAGE[token.idx : token.idx_end] == token.text for token in instance["passage"])
    assert set(instance.fields) == {"passage", "question", "paragraph", "metadata"}
    assert instance["metadata"].metadata.answers is None


@pytest.mark.parametrize(
    "text",
    ["1998", "2001", "mate", "300", "$300", "about", "5", "6 of the pot", "Zoë's team-mate", "St. Ives"],
)
def test_spans_of_answers(text):
    instance = instance_of(text)
    first, last = instance["span"].tensor.tolist()
    offsets = instance["metadata"].metadata.passage.offsets
    assert PASSAGE[offsets[first][0] : offsets[last][1]] == text
    assert instance["metadata"].metadata.answers == [text]


def test_white_space_around_an_answer():
    assert instance_of(" won ")["span"].tensor.tolist() == [9, 9]


def test_an_answer_within_a_token_is_for_evaluation_only():
    """It is not moved to the token that it is in."""
    instance = instance_of("99")
    assert tuple(instance["span"].tensor.tolist()) == NO_SPAN
    assert instance["metadata"].metadata.answers == ["99"]
    assert instance_of("99", "mate")["span"].tensor.tolist() == [8, 8]


@pytest.mark.parametrize(
    ("training_answer", "expected"),
    [("first", {"won"}), ("most_frequent", {"mate"}), ("random", {"won", "mate"})],
)
def test_which_answer_is_trained_on(training_answer, expected):
    reader = SquadReader(training_answer=training_answer)
    answers = [answer(text) for text in ("99", "won", "mate", "mate")]
    chosen = Counter()
    for number in range(30):
        spans = [
            reader.text_to_instance(PASSAGE, f"Question {number}?", answers)["span"].tensor.tolist()
            for _ in range(2)
        ]
        assert spans[0] == spans[1]
        chosen[{8: "mate", 9: "won"}[spans[0][0]]] += 1
    assert set(chosen) == expected


def test_a_file(caplog):
    with caplog.at_level(logging.INFO):
        instances = list(SquadReader().read(DEV))
    assert len(instances) == 16
    assert all(instance["span"].tensor.min() >= 0 for instance in instances)
    assert instances[0]["metadata"].metadata.id == "dev-001"
    assert len(instances[0]["metadata"].metadata.answers) == 3
    # The passage is tokenised, indexed and held in memory once.
    assert len({id(instance["passage"]) for instance in instances}) == 4
    assert [instance["paragraph"].label for instance in instances] == [
        instances[4 * paragraph]["paragraph"].label for paragraph in range(4) for _ in range(4)
    ]
    assert "4 paragraphs, 16 questions (0 unanswerable), 48 answers; left out: 0" in caplog.text


def test_answers_off_the_boundaries_are_counted(tmp_path, caplog):
    texts = [["99", "1998"], ["am"], ["won", "won"]]
    qas = [
        {
            "id": str(number),
            "question": "?",
            "answers": [{"text": text, "answer_start": PASSAGE.index(text)} for text in answers],
        }
        for number, answers in enumerate(texts)
    ]
    content = {"data": [{"paragraphs": [{"context": PASSAGE, "qas": qas}]}]}
    (tmp_path / "data.json").write_text(json.dumps(content))
    with caplog.at_level(logging.INFO):
        found = [instance["span"].tensor.tolist()[0] for instance in SquadReader().read(tmp_path)]
    assert found == [1, -1, 9]
    assert "evaluation only: 2 answers (40.00%), all those of 1 questions" in caplog.text


def test_unanswerable_questions_by_option(caplog):
    with caplog.at_level(logging.INFO):
        assert len(list(SquadReader().read(UNANSWERABLE))) == 8
    assert "left out: 6 unanswerable questions" in caplog.text
    instances = list(SquadReader(unanswerable=True).read(UNANSWERABLE))
    assert len(instances) == 14
    without = [instance for instance in instances if not instance["metadata"].metadata.answers]
    assert len(without) == 6
    assert all(tuple(instance["span"].tensor.tolist()) == NO_SPAN for instance in without)


def test_nothing_is_left_to_read(tmp_path):
    question = {"id": "a", "question": "Why?", "answers": [], "is_impossible": True}
    paragraphs = [{"context": "No answer.", "qas": [question]}]
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": paragraphs}]}))
    assert len(list(SquadReader(unanswerable=True).read(path))) == 1
    with pytest.raises(ConfigurationError, match=r"data.json: found no question with an answer, expected"):
        list(SquadReader().read(path))
    with pytest.raises(ConfigurationError, match=r"data.json: found no question with an answer"):
        list(SquadReader().read([str(path)]))


def test_a_batch_of_the_config():
    reader = SquadReader()
    sampler = {
        "type": "elmo_grouped_bucket",
        "batch_size": 8,
        "group": "paragraph",
        "sorting_keys": ["passage"],
    }
    loader = MultiProcessDataLoader(reader, DEV, batch_sampler=BatchSampler.from_params(Params(sampler)))
    loader.index_with(Vocabulary.from_instances(loader.iter_instances()))
    for batch in loader:
        assert batch["span"].shape == (8, 2)
        assert batch["paragraph"].dtype == torch.long
        assert len(batch["paragraph"].unique()) == 2


@pytest.mark.parametrize("sampler", ["bucket", "elmo_bucket"])
def test_batches_of_like_lengths_without_a_key(sampler):
    assert [len(instance["metadata"].metadata) for instance in SquadReader().read(DEV)] == [
        len(instance["passage"]) for instance in SquadReader().read(DEV)
    ]
    of_batches = BatchSampler.from_params(Params({"type": sampler, "batch_size": 4}))
    loader = MultiProcessDataLoader(SquadReader(), DEV, batch_sampler=of_batches)
    loader.index_with(Vocabulary.from_instances(loader.iter_instances()))
    assert sum(len(batch["metadata"]) for batch in loader) == 16


def test_workers_share_the_paragraphs():
    seen = []
    for worker in range(2):
        reader = SquadReader()
        reader._set_worker_info(WorkerInfo(2, worker))
        seen.append([instance["metadata"].metadata.id for instance in reader.read(DEV)])
    assert seen[0] == [f"dev-{number:03d}" for number in (1, 2, 3, 4, 9, 10, 11, 12)]
    assert sorted(chain(*seen)) == [f"dev-{number:03d}" for number in range(1, 17)]
    assert len(list(SquadReader(max_instances=6).read(DEV))) == 6


def test_what_is_wrong():
    with pytest.raises(ConfigurationError, match="training_answer is 'last', expected one of first, most_"):
        SquadReader(training_answer="last")
    with pytest.raises(ConfigurationError, match="unknown key 'unanswered'; did you mean 'unanswerable'"):
        DatasetReader.from_params(Params({"type": "elmo_squad", "unanswered": True}))
    for passage, question, name in ((" ", "Why?", "passage"), ("A cat.", "\n", "question")):
        with pytest.raises(ConfigurationError, match=f"found no words in the {name}, expected at least one"):
            SquadReader().text_to_instance(passage, question)
