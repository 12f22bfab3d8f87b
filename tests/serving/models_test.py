import asyncio
import pickle
import threading
from itertools import product
from unittest.mock import patch

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance

jsonschema = pytest.importorskip("jsonschema", reason="it comes with the extra ray")

from elmo_tasks.pipeline.predictor import TaskPredictor
from elmo_tasks.serving.answers import Answers, Limits, Query, Refusal
from elmo_tasks.serving.models import Batcher, open_archives, request_schema
from tests.errors import mentions
from tests.pipeline.fake import Doubling
from tests.robustness.predictors_test import READERS, without_model

VALUES = {
    str: "Ana flew .",
    list[str]: ["Ana", "flew", "."],
    list[list[str]]: [["Ana", "flew", "."], ["She", "slept", "."]],
    list[int]: [1],
}
PAIRS = {"format": "jsonl", "classes": ["a", "b"], "sentence1": "x", "sentence2": "z", "label": "y"}


def test_archives_by_their_names(run, tmp_path, monkeypatch):
    run = str(run)
    with patch.object(TaskPredictor, "predict_json") as ran:
        opened = open_archives([run, f"my.ner={run}"])
    assert ran.call_count == 2, "each model runs once before others may ask it"
    assert {name: each.archive for name, each in opened.items()} == {"ner": run, "my.ner": run}
    (tmp_path / "lr=0.1").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    assert list(open_archives(["lr=0.1", "slow=lr=0.1"])) == ["ner", "slow"]
    with pytest.raises(ConfigurationError, match="the same name, ner"):
        open_archives([run, f"ner={run}"])


def test_inputs_to_explain():
    """They may go to another process. A model without explanations says so, after other errors."""
    queries = [Query({"text": "a"}, True), Query({"text": 1}, True), Query({"text": "a"})]
    first, second, third = Answers(Doubling(), Limits())(pickle.loads(pickle.dumps(queries)))
    assert first == Refusal(422, "the model cannot be explained")
    assert mentions(second.reason, '"text"')
    assert third == '{"doubled": 2}'


class Model:
    """Answers with its inputs, and lists its batches; it waits until `proceed` is set."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.proceed = threading.Event()
        self.threads: set[int] = set()

    def __call__(self, inputs):
        self.threads.add(threading.get_ident())
        self.batches.append(inputs)
        assert self.proceed.wait(5)
        if "bad" in inputs:
            raise ValueError("bad")
        return inputs


@pytest.fixture
def model():
    return Model()


def test_inputs_that_come_while_a_batch_runs_are_the_next_one(model):
    async def run():
        batcher = Batcher(model, size=3, wait=0.0)
        first = asyncio.create_task(batcher([0]))
        while not model.batches:
            await asyncio.sleep(0.001)
        later = [asyncio.create_task(batcher(inputs)) for inputs in ([1, 2], [3], [4])]
        await asyncio.sleep(0)
        model.proceed.set()
        return await asyncio.gather(first, *later)

    assert asyncio.run(run()) == [[0], [1, 2], [3], [4]]
    assert model.batches == [[0], [1, 2, 3], [4]]
    assert len(model.threads) == 1
    assert threading.get_ident() not in model.threads


def test_cancelled_inputs_are_skipped(model):
    async def run():
        batcher = Batcher(model, size=1, wait=0.0)
        tasks = [asyncio.create_task(batcher([number])) for number in range(4)]
        while not model.batches:
            await asyncio.sleep(0.001)
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.sleep(0)
        model.proceed.set()
        return await asyncio.gather(tasks[1], tasks[3])

    assert asyncio.run(run()) == [[1], [3]]
    assert model.batches == [[0], [1], [3]]


def test_an_error_concerns_its_batch(model):
    model.proceed.set()

    async def run():
        batcher = Batcher(model, size=2, wait=0.0)
        answers = await asyncio.gather(batcher(["bad", 1]), batcher([2]), return_exceptions=True)
        return [*answers, await batcher([3])]

    error, *answers = asyncio.run(run())
    assert isinstance(error, ValueError)
    assert answers == [[2], [3]]


@pytest.mark.parametrize(("name", "options"), [*READERS.items(), ("elmo_classifier", PAIRS)])
def test_the_schema_allows_the_fields_that_predictors_read(name, options):
    predictor = without_model(name, options)
    assert predictor.forms
    schema = request_schema(predictor)
    # A spaCy model would find missing predicates.
    needed = {"predicates"} & predictor.optional_fields.keys()
    for form in predictor.forms:
        content = {name: VALUES[kind] for name, kind in form.items()}
        optional = {name: VALUES[kind] for name, kind in predictor.optional_fields.items()}
        if "sentences" not in form:
            optional.pop("speakers", None)
        for whole in (content | {name: optional[name] for name in needed}, content | optional):
            jsonschema.validate([whole, whole], schema)
            assert isinstance(predictor.example(whole), Instance)
        for name, wrong in product(form, (None, 1)):
            part = {other: value for other, value in (content | optional).items() if other != name}
            bad = part if wrong is None else part | {name: wrong}
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(bad, schema)
            with pytest.raises(ConfigurationError):
                predictor.to_instance(predictor.read(bad))
