"""The page in a real browser. The environment variable SCREENSHOTS names a folder for pictures of it."""

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

import json
import os
import re
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from elmo_tasks.common.files import bundled
from elmo_tasks.page.app import Page
from elmo_tasks.page.tabs import Tab
from elmo_tasks.page.words import WordsInContext, read_corpus
from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.models import local_model
from elmo_tasks.vectors.encoder import BiLmEncoder
from tests.elmo.files import frozen, random_bilm
from tests.predictors.archives import predictor_of
from tests.serving.clients import running

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
TASKS = {name: name for name in ("ner", "srl", "coref", "squad", "snli", "sst")} | {"topics": "agnews"}
TABS = (*TASKS, "elmo")
DATA = {
    "ner": "ner/dev.conll",
    "srl": "srl/dev.conll",
    "coref": "coref/dev.conll",
    "squad": "squad/dev.json",
    "snli": "snli/dev.jsonl",
    "sst": "sst/dev.txt",
    "topics": "classification/agnews/dev.csv",
}
"""Validation data, whose first records are the examples."""
LIMITS = Limits(max_tokens=150)
SCREENS = {"wide": (1400, "light"), "narrow": (400, "dark")}
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome"),
]


@pytest.fixture(scope="module")
def address():
    """The address of a service whose models have random weights."""
    predictors = {name: predictor_of(config) for name, config in TASKS.items()}
    words = WordsInContext(
        encoder=BiLmEncoder(bilm=frozen(random_bilm()), mixes={}),
        corpus=read_corpus(bundled("fixtures/evaluation/corpus.txt")),
    )
    tabs = [
        Tab.of(name, predictor, validation=f"fixtures/{DATA[name]}") for name, predictor in predictors.items()
    ]
    models = {name: local_model(predictor, LIMITS) for name, predictor in predictors.items()}
    with running(models, LIMITS, extend=lambda app: Page(app, tabs=tabs, limits=LIMITS, words=words)) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(params=SCREENS)
def page(request, browser, address):
    """An empty page; it may send requests only to the service, and its scripts must not fail."""
    width, scheme = SCREENS[request.param]
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=address
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(20_000)
    problems = []
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if "Security" in message.text else None)
    page.on("request", lambda sent: sent.url.startswith(address) or problems.append(sent.url))
    yield page
    context.close()
    assert problems == []


def check_width(page, name):
    """Checks that the page does not scroll sideways, and takes a picture if asked to."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder, f"{name}-{page.viewport_size['width']}.png")
        page.screenshot(path=path, full_page=True)


def show_first_example(page, tab):
    page.goto("/elmo" if tab == "elmo" else f"/show/{tab}")
    page.locator(".examples a").first.click()
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    return page.locator("section[aria-labelledby=answer]")


@pytest.mark.parametrize("tab", TABS)
def test_an_example_of_each_tab(page, tab):
    answer = show_first_example(page, tab)
    text = answer.inner_text()
    expected = {
        "ner": answer.locator(".marked"),
        "srl": answer.locator("figure figcaption"),
        "coref": answer.locator("ol.clusters li"),
        "squad": answer.locator(".bars tr"),
        "snli": answer.locator("table.heat"),
        "sst": answer.locator("ruby"),
        "topics": answer.locator(".bars tr.best"),
        "elmo": answer.locator("ol.neighbours li mark"),
    }[tab]
    assert expected.count() >= {"snli": 2, "squad": 5, "sst": 8, "elmo": 20}.get(tab, 1)
    assert expected.first.is_visible()
    if tab == "elmo":
        assert "Cosine of “play” in both sentences" in text
    else:
        assert page.get_by_text("The mix that the model has learned").is_visible()
        assert page.locator("section[aria-labelledby=mix] .bars tr").count() in (3, 6)
    check_width(page, tab)
    link = page.get_by_role("link", name="Permanent link to this answer").get_attribute("href")
    page.goto(link)
    assert page.locator("section[aria-labelledby=answer]").inner_text() == text


@pytest.mark.parametrize("tab", ["srl", "coref", "squad", "sst"])
def test_a_long_word_on_a_small_phone(page, tab):
    page.set_viewport_size({"width": 320, "height": 640})
    word = "https://example.org/" + "long-word-" * 8
    fields = {
        "srl": f"sentence=Ana+read+{word}+.&predicates=read",
        "coref": f"document=Ana+read+{word}+.+She+liked+{word}+.",
        "squad": f"passage=Ana+read+{word}+.&question=What+did+Ana+read+?",
    }.get(tab, f"sentence=Good+{word}+.&explain=simple")
    page.goto(f"/show/{tab}?{fields}")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    check_width(page, f"long-{tab}")


def test_hebrew_runs_from_the_right(page):
    page.set_viewport_size({"width": 1400, "height": 800})
    words = ["דנה", "נסעה", "אתמול", "לחיפה"]
    page.goto(f"/show/srl?sentence={'+'.join(words)}&predicates={words[1]}")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    places = [page.locator(".marked").first.get_by_text(word).first.bounding_box()["x"] for word in words]
    assert places == sorted(places, reverse=True)


def test_by_the_keyboard_alone(page):
    page.goto("/")
    check_width(page, "overview")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_role("navigation").get_by_role("link", name="topics").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/show/topics")
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.id") != "sentence":
        page.keyboard.press("Tab")
    page.keyboard.type("The cup final was won.")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # "Explain"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/show/topics?sentence=The+cup+final+was+won.&explain=1")
    words = page.locator("section[aria-labelledby=answer] ruby").all_inner_texts()
    assert [re.split(r"\s", word)[0] for word in words] == ["The", "cup", "final", "was", "won", "."]
    check_width(page, "explained")


def test_errors_are_sentences(page):
    page.goto("/show/srl?sentence=Ana+flew.&predicates=sang")
    alert = page.get_by_role("alert").inner_text()
    assert alert.startswith("“sang” is not in the sentence. Predicates are words of the sentence")
    check_width(page, "error")


def test_long_inputs_are_not_sent(page):
    page.goto("/show/ner")
    sent = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.url))
    page.get_by_label("Sentence").fill("a " * 151)
    assert page.locator("#status").inner_text() == "151 words, and 150 at most can be read"
    page.get_by_role("button", name="Show").click()
    assert page.evaluate("document.querySelector('#sentence').validationMessage") == (
        "151 words, and 150 at most can be read"
    )
    assert sent == []
    page.get_by_label("Sentence").fill("a b")
    assert page.locator("#status").inner_text() == "Enter shows the answer. At most 150 words."


def test_a_slow_answer_shows_that_it_works(page):
    page.goto("/show/ner")
    page.get_by_label("Sentence").fill("Ana flew.")
    page.evaluate("document.forms[0].addEventListener('submit', (event) => event.preventDefault())")
    page.get_by_role("button", name="Show").click()
    page.locator("#status.busy").wait_for()
    assert page.locator("#status").inner_text() == "Working …"
    assert page.get_by_role("button", name="Show").get_attribute("aria-disabled") == "true"


def test_the_json_is_copied(page):
    page.goto("/show/sst?sentence=Good.")
    page.get_by_text("JSON", exact=True).click()
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["tokens"] == ["Good", "."]


def test_without_the_script(browser, address):
    context = browser.new_context(java_script_enabled=False, base_url=address)
    page = context.new_page()
    page.goto("/show/ner")
    page.get_by_label("Sentence").fill("Ana flew.")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/show/ner?sentence=Ana+flew.")
    assert page.get_by_role("heading", name="Answer").is_visible()
    context.close()
