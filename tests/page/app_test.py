"""The page without a browser: status codes, headers, and HTML."""

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
import asyncio
import json
import re
import threading
from collections import Counter
from contextlib import asynccontextmanager
from html import unescape
from types import SimpleNamespace
from urllib.parse import urlencode

import httpx

from elmo_tasks import __version__
from elmo_tasks.page.app import HEADERS, Page
from elmo_tasks.page.tabs import Tab
from elmo_tasks.serving import answers
from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.app import create_app
from elmo_tasks.serving.models import local_model
from tests.pipeline.archives import predictor_of
from tests.serving.clients import Unfinished, model_of

LIMITS = Limits(max_tokens=20, max_bytes=20_000)
HOSTILE = "Ana <script>alert(1)</script> & \"Bo\" 'x' {{ 1 }}"


@asynccontextmanager
async def client_of(models, tabs=(), limits=LIMITS, root_path="", **page):
    """A client of a page, without a network."""
    app = create_app(models, limits=limits)
    Page(app, tabs=tabs, limits=limits, root_path=root_path, **page)
    transport = httpx.ASGITransport(app, root_path=root_path)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://test{root_path}") as client:
        yield client


@pytest.fixture(scope="module")
def ask():
    """Asks the page of two models."""
    predictors = {"names": predictor_of("ner"), "who": predictor_of("coref")}
    tabs = [Tab.of(name, predictor) for name, predictor in predictors.items()]

    def request(method, path, **options):
        async def respond():
            models = {name: local_model(predictor, LIMITS) for name, predictor in predictors.items()}
            async with client_of(models, tabs) as client:
                return await client.request(method, path, **options)

        return asyncio.run(respond())

    return request


def test_the_overview_has_the_tabs(ask):
    response = ask("GET", "/")
    assert response.status_code == 200
    assert response.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert '<a href="/show/names">Who is named?</a>' in response.text
    assert f'elmo_tasks</strong></a> <span class="fine">{__version__}</span>' in response.text
    assert "/elmo" not in response.text


@pytest.mark.parametrize(
    ("config", "form", "pattern", "count"),
    [
        ("srl", {"sentence": "Ana sold it.", "predicates": "sold"}, "<summary>sold<", 1),
        ("srl", {"sentence": "Ana sold it."}, "<summary>sold<", 1),
        ("squad", {"passage": "Bo ran home.", "question": "Who ran?"}, '<th scope="row" dir="auto">1. ', 1),
        ("snli", {"premise": "A man ran.", "hypothesis": "He ran."}, '<table class="heat">', 2),
        ("sst", {"sentence": "Good film."}, "<ruby ", 3),
        ("agnews", {"sentence": "Good film."}, '<tr class="best">', 1),
    ],
)
def test_the_answer_of_each_task(config, form, pattern, count):
    predictor = predictor_of(config)

    async def respond():
        async with client_of({"m": local_model(predictor, LIMITS)}, [Tab.of("m", predictor)]) as client:
            return await client.get("/show/m", params=form)

    html = asyncio.run(respond()).text
    assert len(re.findall(pattern, html)) == count
    assert "Learned weights" in html


def test_the_form_says_how_long_a_long_text_takes():
    predictor = predictor_of("srl")
    limits = Limits()

    async def respond():
        async with client_of(
            {"m": local_model(predictor, limits)}, [Tab.of("m", predictor)], limits
        ) as client:
            before = await client.get("/show/m")
            await client.get("/show/m", params={"sentence": "Rain. " * 101, "predicates": "rain"})
            return before.text, (await client.get("/show/m")).text

    before, after = asyncio.run(respond())
    assert "1,000 take some 5 seconds" in before
    assert "1,000 take some 5 seconds" not in after


def test_the_docs_for_programs_lead_back(ask):
    html = ask("GET", "/docs").text
    assert "swagger" in html
    assert '<a href="/show/names"' in html


def test_a_missing_model(ask):
    response = ask("GET", "/show/other<b>")
    assert response.status_code == 404
    assert "other<b>" not in response.text
    assert "The service has no model 'other<b>'" in unescape(response.text)


@pytest.mark.parametrize("name", ["style.css", "script.js", "icon.svg", "docs.css", "docs.js"])
def test_assets(ask, name):
    response = ask("GET", f"/assets/{name}")
    assert response.status_code == 200
    assert "http" not in response.text.replace("http://www.w3.org/2000/svg", "")


def test_everything_is_escaped(ask):
    response = ask("GET", "/show/names", params={"sentence": HOSTILE, "more": "<script>"})
    assert response.status_code == 200
    html = response.text
    assert "Answer" in html
    assert html.count("<script") == 1
    assert 'style="' not in html
    assert "{{ 1 }}" in html
    assert urlencode({"sentence": HOSTILE}) in html.replace("&amp;", "&")


def test_a_form_goes_to_its_address(ask):
    response = ask("POST", "/show/names", data={"sentence": "Ana flew.", "explain": "1"})
    assert response.status_code == 303
    assert response.headers["location"] == "/show/names?sentence=Ana+flew.&explain=1"
    html = ask("GET", response.headers["location"]).text
    assert "Explain" in html
    assert "checked" in html


def test_behind_a_proxy_links_have_its_path():
    predictor = predictor_of("ner")
    tab = Tab.of("names", predictor)
    models = {"names": local_model(predictor, LIMITS)}

    async def respond():
        async with client_of(models, [tab], root_path="/elmo") as client:
            form = {"sentence": "Ana flew."}
            sent = await client.post("/show/names", data=form)
            pages = [await client.get(path, params=form) for path in ("/", "/show/names")]
            return sent, pages, await client.get("/assets/style.css"), await client.get("/openapi.json")

    sent, pages, style, document = asyncio.run(respond())
    assert sent.headers["location"] == "/elmo/show/names?sentence=Ana+flew."
    for page in pages:
        links = re.findall(r'(?:href|src|action)="(/[^"]*)', page.text)
        assert len(links) > 5
        assert all(link.startswith("/elmo/") for link in links)
    assert style.status_code == 200
    assert document.json()["servers"] == [{"url": "/elmo"}]


def test_names_are_counted(ask):
    params = {"sentence": "Ana saw Bo. Ana saw Bo."}
    response = ask("GET", "/show/names", params=params)
    names = json.loads(unescape(re.search('<pre id="json"[^>]*>(.*?)</pre>', response.text, re.DOTALL)[1]))
    counts = Counter(entity["text"] for entity in names["entities"])
    shown = re.findall(r'<td dir="auto">(.*?)</td><td>.*?</td><td class="number">(\d+)</td>', response.text)
    totals = Counter()
    for name, times in shown:
        totals[unescape(name)] += int(times)
    assert totals == counts


def test_a_text_without_replaced_pronouns_is_not_repeated(ask):
    response = ask("GET", "/show/who", params={"document": "No."})
    assert "No pronoun was replaced." in response.text
    assert 'class="resolved"' not in response.text


@pytest.mark.parametrize(
    ("tab", "text", "headings"),
    [
        ("names", {"sentence": "Ana"}, [r"Ana: \w+ \([A-Z]+, \d+%\)"]),
        ("names", {"sentence": "a"}, ["No entity"]),
        ("who", {"document": "Ana saw Bo. She liked him."}, ["Cluster 1: .*Ana.*"]),
        ("who", {"document": "She liked him. No."}, ["No cluster"]),
    ],
)
def test_headings_of_explanations(ask, tab, text, headings):
    response = ask("GET", f"/show/{tab}", params=text | {"explain": "1"})
    shown = re.findall('<details class="part"[^>]*><summary>(.*)</summary>', response.text)
    for each, heading in zip(shown, headings, strict=True):
        assert re.fullmatch(heading, each)


def test_an_input_that_is_too_long_for_an_address(ask):
    response = ask("POST", "/show/names", data={"sentence": " ".join(["a" * 1000] * 5)})
    assert response.status_code == 200
    assert "The input is too long for a permanent link." in response.text
    assert "a" * 1000 in response.text


@pytest.mark.parametrize(
    ("sentence", "status", "message"),
    [
        ("", 422, "“Text” is empty"),
        (" ".join("a" * 21), 422, "21 words and signs, and the limit is 20"),
        ("a" * 30_000, 413, "The text is too long."),
    ],
)
def test_errors_are_sentences(ask, sentence, status, message):
    response = ask("POST", "/show/names", data={"sentence": sentence, "explain": "1"}, follow_redirects=True)
    assert response.status_code == status
    assert message in response.text
    assert 'role="alert"' in response.text


def test_bodies_without_a_form(ask):
    response = ask("POST", "/show/names", content="sentence=é".encode())
    assert response.status_code == 400
    assert "not URL encoding" in response.text
    for response in (
        ask("POST", "/show/names", content="sentence=%ff"),
        ask("GET", "/show/names?sentence=Ana%ff"),
    ):
        assert response.status_code == 400
        assert "\ufffd" not in response.text
    for body in ({"json": {"sentence": "x"}}, {"files": {"sentence": b"x"}}):
        response = ask("POST", "/show/names", **body)
        assert response.status_code == 415
        assert "application/x-www-form-urlencoded" in response.text


def test_the_tab_elmo_is_within_the_limits():
    class Slow:
        fields = examples = corpus = ()

        def __call__(self, form):
            began.set()
            done.wait()
            return {"neighbours": {}}

    began, done = threading.Event(), threading.Event()

    async def respond():
        async with client_of({}, limits=Limits(max_queue=1), words=Slow()) as client:
            one = asyncio.create_task(client.get("/elmo?word=a"))
            await asyncio.to_thread(began.wait)
            two = await client.get("/elmo?word=a")
            done.set()
            return [(await one).status_code, two.status_code]

    assert asyncio.run(respond()) == [200, 429]


@pytest.mark.parametrize(("limits", "status"), [({"max_queue": 0}, 429), ({"timeout": 0.01}, 503)])
def test_the_tab_of_a_model_is_within_the_limits(limits, status):
    model = model_of(Unfinished(), **limits)
    tab = Tab.of("names", predictor_of("ner"))

    async def respond():
        async with client_of({"names": model}, [tab], model.limits) as client:
            return (await client.get("/show/names?sentence=a")).status_code

    assert asyncio.run(respond()) == status


def test_a_broken_model(monkeypatch, ask):
    monkeypatch.setattr(answers, "Explainer", lambda predictor: SimpleNamespace())
    response = ask("GET", "/show/names", params={"sentence": "Ana flew.", "explain": "1"})
    assert response.status_code == 500
    assert "The model failed on this text." in response.text
