import asyncio

import pytest
from allennlp.common.checks import ConfigurationError
from starlette.exceptions import HTTPException

from elmo_tasks.serving.answers import Limits, Refusal
from elmo_tasks.serving.models import local_model, open_archives
from tests.elmo.files import make_files
from tests.ner.archives import write_run
from tests.serving.clients import Doubling, model_of


def refusal_of(model, inputs):
    with pytest.raises(HTTPException) as caught:
        asyncio.run(model.lines(inputs))
    return caught.value.status_code, caught.value.detail


def test_lines_of_a_model_in_this_process():
    model = local_model(Doubling(), Limits())
    assert asyncio.run(model.lines([{"text": "a"}, {"text": "bc"}])) == ['{"doubled": 2}', '{"doubled": 4}']
    assert refusal_of(model, [{"text": "a"}, {}]) == (
        422,
        'input 2 of 2: found the fields: none; expected "text": a string',
    )


def test_no_answer_in_time():
    async def answer(inputs):
        await asyncio.sleep(5)

    assert refusal_of(model_of(answer, timeout=0.01), [{}]) == (503, "found no answer within 0.01 seconds")


def test_the_place_is_named_among_several():
    async def answer(inputs):
        return [Refusal(422, "bad")] * len(inputs)

    assert refusal_of(model_of(answer), [{}]) == (422, "bad")
    assert refusal_of(model_of(answer), [{}, {}]) == (422, "input 1 of 2: bad")


def test_places_in_the_queue():
    model = model_of(None, max_queue=3)
    with model.places(2):
        with pytest.raises(HTTPException) as caught, model.places(2):
            pass
        assert caught.value.status_code == 429
        assert caught.value.detail == "found 2 inputs waiting, expected at most 3 with these"
        with model.places(1):
            assert model.taken == 3
    assert model.taken == 0


def test_archives_by_their_names(tmp_path, monkeypatch):
    make_files(tmp_path / "bilm")
    write_run(tmp_path / "run", seed=1, bilm=tmp_path / "bilm")
    run = str(tmp_path / "run")
    opened = open_archives([run, f"my.ner={run}"])
    assert {name: each.archive for name, each in opened.items()} == {"ner": run, "my.ner": run}
    (tmp_path / "lr=0.1").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    assert list(open_archives(["lr=0.1", "slow=lr=0.1"])) == ["ner", "slow"]
    with pytest.raises(
        ConfigurationError, match=r"found two archives of the name ner, .* expected NAME=ARCHIVE"
    ):
        open_archives([run, f"ner={run}"])
