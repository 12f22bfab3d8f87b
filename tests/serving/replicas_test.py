"""A process on a Ray that the test starts."""

import asyncio
import json

import pytest

pytest.importorskip("ray")
pytest.importorskip("ray.serve")

from starlette.exceptions import HTTPException

from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.models import open_archives
from elmo_tasks.serving.replicas import start_replicas, stop_replicas
from tests.elmo.files import make_files
from tests.ner.archives import write_run

SENTENCES = [{"tokens": ["Ana", "flew", "to", "Rome", "."][:length]} for length in range(6)]


def test_answers_of_another_process(tmp_path):
    make_files(tmp_path / "bilm")
    write_run(tmp_path / "run", seed=1, bilm=tmp_path / "bilm")
    archives = open_archives([f"mine={tmp_path / 'run'}"])
    expected = [archives["mine"].predictor.predict_json(one) for one in SENTENCES]
    try:
        models = start_replicas(archives, Limits(), replicas=1, address=None)

        async def answers():
            lines = await asyncio.gather(*(models["mine"].lines(SENTENCES) for _ in range(4)))
            with pytest.raises(HTTPException) as caught:
                await models["mine"].lines([SENTENCES[0], {}])
            return lines, caught.value

        lines, error = asyncio.run(answers())
    finally:
        stop_replicas()
    assert (error.status_code, error.detail[:13]) == (422, "input 2 of 2:")
    for client in lines:
        assert [json.loads(line)["tags"] for line in client] == [one["tags"] for one in expected]
    assert models["mine"].schema["anyOf"][0]["title"] == "sentence"
