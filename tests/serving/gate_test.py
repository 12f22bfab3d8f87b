import asyncio
from base64 import b64encode

import pytest
from prometheus_client.parser import text_string_to_metric_families

from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.models import local_model
from tests.serving.clients import Doubling, ask, model_of


@pytest.fixture
def models():
    return {"double": local_model(Doubling(), Limits())}


POST = ("POST", "/predict/double")
BODY = {"json": {"text": "a"}}


@pytest.mark.parametrize(
    ("header", "passes"),
    [
        *((f"{kind} secret", True) for kind in ("Bearer", "bearer")),
        *((f"{kind} {b64encode(b'me:secret').decode()}", True) for kind in ("Basic", "basic")),
        *((header, False) for header in ("Bearer Secret", "Bearer other", "secret", "Bearer s\xe4")),
        *(
            (header, False)
            for header in ("Basic secret", "Basic s\xe4", f"Basic {b64encode(b'me:no').decode()}")
        ),
    ],
)
def test_a_token_is_asked_for(models, header, passes):
    (response,) = ask(
        models,
        Limits(),
        (*POST, BODY | {"headers": {"Authorization": header.encode("latin-1")}}),
        token="secret",
    )
    if passes:
        assert response.json() == {"doubled": 2}
    else:
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith('Bearer, Basic realm="the token')
        assert "expected the header 'Authorization: Bearer TOKEN'" in response.json()["error"]


def test_everything_but_health_asks_for_it(models):
    paths = ("/health", "/metrics", "/docs", "/openapi.json", "/predict/none", "/none")
    responses = ask(models, Limits(), *(("GET", path, {}) for path in paths), token="secret")
    assert [response.status_code for response in responses] == [200] + [401] * 5


def test_metrics_count_requests_by_status(models):
    async def never(inputs):
        await asyncio.sleep(60)

    models["slow"] = model_of(never, timeout=0.01)
    *_, response = ask(
        models,
        Limits(),
        *[(*POST, BODY)] * 3,
        (*POST, {"content": b"x"}),
        ("POST", "/predict/slow", BODY),
        ("POST", "/predict/none", BODY),
        ("GET", "/health", {}),
        ("GET", "/metrics", {}),
    )
    counts = {
        (sample.labels["model"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if sample.name == "elmo_requests_total"
    }
    assert counts == {("double", "200"): 3, ("double", "400"): 1, ("slow", "503"): 1}
    assert 'elmo_queue_inputs{model="double"} 0.0' in response.text
    assert 'elmo_request_seconds_count{model="double"} 4.0' in response.text
