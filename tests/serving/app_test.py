"""A whole service with an NER model in a thread, and its app without a network."""

import asyncio
import json
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import elmo_tasks
from benchmarks.serve_load import BAD, difference
from elmo_tasks.common.files import bundled
from elmo_tasks.pipeline.results import label_names
from elmo_tasks.serving.answers import Answers, Limits, Query
from elmo_tasks.serving.models import local_model
from tests.errors import mentions
from tests.pipeline.archives import predictor_of
from tests.pipeline.fake import Doubling
from tests.serving.clients import Unfinished, ask, model_of, running

LIMITS = Limits()


@pytest.fixture(scope="module")
def inputs():
    lines = bundled("fixtures/ner/predict.jsonl").read_text(encoding="utf-8").splitlines()
    sentences = [json.loads(line) for line in lines]
    words = [word for one in sentences for word in one.get("sentence", "a").split()]
    return [*sentences, *({"tokens": words[:length]} for length in (1, 2, 40, 90)), {"tokens": []}]


@pytest.fixture(scope="module")
def service(inputs):
    predictor = predictor_of("ner")
    answers = Answers(predictor, LIMITS)
    expected = [str(*answers([Query(one)])) for one in inputs]
    with running({"ner": local_model(predictor, LIMITS)}, LIMITS) as address:
        predicted = [predictor.predict_json(one) for one in inputs]
        yield SimpleNamespace(
            address=address, ner=f"{address}/predict/ner", expected=expected, predicted=predicted
        )


@pytest.mark.slow
def test_one_input_is_the_line_of_predict_with_the_names_of_labels(service, inputs):
    for one, line, predicted in zip(inputs, service.expected, service.predicted, strict=True):
        types = {entity["type"] for entity in predicted["entities"]}
        assert json.loads(line) == predicted | ({"label_names": label_names(types)} if types else {})
        response = httpx.post(service.ner, json=one)
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.text == line


def test_a_list_is_a_list_in_order(service, inputs):
    response = httpx.post(service.ner, json=inputs)
    assert difference(response.json(), list(map(json.loads, service.expected))) < 1e-5
    assert httpx.post(service.ner, json=[]).json() == []
    # As editors of Windows begin a file
    with_mark = "\ufeff".encode() + json.dumps(inputs[0]).encode()
    assert httpx.post(service.ner, content=with_mark).text == service.expected[0]


REFUSALS = {
    **dict.fromkeys(("many inputs", "many bytes", "a great many bytes"), 413),
    **dict.fromkeys(("a string", "null", "a list in a list", "no fields", "another task's field"), 422),
    **dict.fromkeys(("a number", "tokens in a string", "a token that is none"), 422),
    **dict.fromkeys(("a bad one among good ones", "many tokens", "a long word"), 422),
}
"""The statuses of bodies that are JSON; others are refused with 400."""


def parts(content):
    """Yields a body without announcing its length."""
    for start in range(0, len(content), 1 << 16):
        yield content[start : start + (1 << 16)]


@pytest.mark.parametrize("split", [bytes, parts])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_body(service, name, split):
    response = httpx.post(service.ner, content=split(BAD[name]))
    assert response.status_code == REFUSALS.get(name, 400)
    assert ("input 2 of 2: " in response.json()["error"]) == (name == "a bad one among good ones")
    assert "Traceback" not in response.text


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "reason"),
    [
        ("GET", "/predict/ner", {}, 405, "/predict/ner does not take GET, only POST"),
        ("DELETE", "/health", {}, 405, "/health does not take DELETE, only GET"),
        ("POST", "/predict/sst", {}, 404, "/predict/sst"),
        ("POST", "/predict/../ner", {}, 404, "/predict/ner"),
        ("POST", "/predict/ner", {"content-encoding": "gzip"}, 415, "encoding gzip"),
    ],
)
def test_a_bad_request(service, method, path, headers, status, reason):
    response = httpx.request(method, service.address + path, headers=headers)
    assert response.status_code == status
    assert reason in response.json()["error"]


@pytest.mark.slow
def test_the_queue_is_full(service, inputs):

    def ask_for_all(_):
        return httpx.post(service.ner, json=inputs * 3).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = set(pool.map(ask_for_all, range(12)))
    assert statuses == {200, 429}
    assert httpx.post(service.ner, json=inputs[0]).text == service.expected[0]


def test_documents(service):
    assert httpx.get(f"{service.address}/health").json() == {"status": "ok", "models": ["ner"]}
    document = httpx.get(f"{service.address}/openapi.json").json()
    assert document["info"]["version"] == elmo_tasks.__version__
    assert [list(methods) for methods in document["paths"].values()] == [["post"], ["get"], ["get"]]
    post = document["paths"]["/predict/ner"]["post"]
    forms = post["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert [form["title"] for form in forms] == ["sentence", "tokens", "several inputs"]
    assert "Out: `tokens`, `tags` (IOB2)" in post["description"]


def test_ids_and_short_fields_are_repeated_and_others_refused():
    content = {"text": "a", "ticket": "T-1", "doc_key": "nw"}
    others = [{"address": "x" * 99}, {"threshold": 0.5}, {"txet": ["a"]}]
    requests = [("POST", "/predict/double", {"json": content | other}) for other in ({}, *others)]
    response, *refused = ask({"double": local_model(Doubling(), LIMITS)}, LIMITS, *requests)
    assert response.json() == {"ticket": "T-1", "doc_key": "nw", "doubled": 2}
    for answer, other in zip(refused, others, strict=True):
        assert answer.status_code == 422
        assert mentions(answer.json()["error"], *other, "text")


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_head_requests(service, path):
    head, whole = httpx.head(service.address + path), httpx.get(service.address + path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize("failing", ["model", "service"])
def test_what_fails_is_in_the_log(failing, monkeypatch):
    model = local_model(Doubling(), LIMITS)
    if failing == "service":
        monkeypatch.setattr(model, "answer", None)
    (response,) = ask({"double": model}, LIMITS, ("POST", "/predict/double", {"json": {"text": 3 * "x"}}))
    assert response.status_code == 500
    assert mentions(response.json()["error"], failing, "log")


POST = ("POST", "/predict/double")
BODY = {"json": {"text": "a"}}


@pytest.fixture
def models():
    return {"double": local_model(Doubling(), LIMITS)}


@pytest.mark.parametrize(
    ("header", "passes"),
    [
        *((f"{kind} secret", True) for kind in ("Bearer", "bearer")),
        *((f"{kind} {b64encode(b'me:secret').decode()}", True) for kind in ("Basic", "basic")),
        *((header, False) for header in ("Bearer Secret", "Bearer other", "secret", "Bearer s\xe4")),
        *((f"Basic {text}", False) for text in ("secret", "s\xe4", b64encode(b"me:no").decode())),
    ],
)
def test_the_token(models, header, passes):
    request = (*POST, BODY | {"headers": {"Authorization": header.encode("latin-1")}})
    (response,) = ask(models, LIMITS, request, token="secret")
    if passes:
        assert response.json() == {"doubled": 2}
    else:
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith('Bearer, Basic realm="the token')
        assert "Authorization: Bearer TOKEN" in response.json()["error"]


def test_everything_but_health_asks_for_it(models):
    paths = ("/health", "/metrics", "/docs", "/openapi.json", "/predict/none", "/none")
    responses = ask(models, LIMITS, *(("GET", path, {}) for path in paths), token="secret")
    assert [response.status_code for response in responses] == [200] + [401] * 5


@pytest.mark.parametrize("origins", [[], ["https://example.org"]])
def test_pages_of_another_origin(models, origins):
    page = {"Origin": "https://example.org", "Access-Control-Request-Headers": "authorization"}
    preflight = ("OPTIONS", POST[1], {"headers": page | {"Access-Control-Request-Method": "POST"}})
    without_token = (*POST, BODY | {"headers": page})
    first, second = ask(models, LIMITS, preflight, without_token, token="secret", origins=origins)
    assert (first.status_code, second.status_code) == (200 if origins else 401, 401)
    for response in (first, second):
        assert response.headers.get("access-control-allow-origin") == (origins[0] if origins else None)


def test_a_client_that_leaves_before_the_answer():
    slow = Unfinished()
    with running({"slow": model_of(slow)}, LIMITS) as address:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/predict/slow", json=[{}, {}], timeout=0.5)
        assert slow.cancelled.wait(10)
        metrics = httpx.get(f"{address}/metrics").text
    assert 'elmo_requests_total{model="slow",status="499"} 1.0' in metrics
    assert 'elmo_queue_inputs{model="slow"} 0.0' in metrics


def test_metrics_count_requests_by_status(models):
    async def never(inputs):
        await asyncio.sleep(60)

    models["slow"] = model_of(never, timeout=0.01)
    *_, response = ask(
        models,
        LIMITS,
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
