"""The page in a real browser. The environment variable SCREENSHOTS names a folder for pictures of it."""

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

import json
import os
import re
import shutil
import signal
from pathlib import Path

from playwright.sync_api import sync_playwright

from elmo_tasks import load
from elmo_tasks.common.files import bundled
from elmo_tasks.serving.models import trained_models
from tests.commands.serve_test import address_in
from tests.forked import Command

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
SENTENCE = (
    "After a long summer the two brothers who own the bakery near the old harbour sold their first house to "
    "a young family from the north."
)
COLOURS = """elements => elements.map(one => {
    const style = getComputedStyle(one);
    return [style.color, style.backgroundColor, style.font, style.margin];
})"""
SCREENS = [(1280, "light"), (768, "light"), (390, "light"), (390, "dark")]
pytestmark = [pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome"), pytest.mark.slow]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a service with the trained models."""
    log = tmp_path_factory.mktemp("service") / "log"
    corpus = bundled("fixtures/evaluation/corpus.txt").resolve()
    service = Command(["elmo", "serve", "--port", 0, "--corpus", corpus, "--max-tokens", 150], log)
    yield f"http://{address_in(log)}"
    os.kill(service.pid, signal.SIGTERM)
    service.finish()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture
def page(request, browser, address):
    """An empty page; it may send requests only to the service, and its scripts must not fail."""
    width, scheme = getattr(request, "param", (390, "light"))
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


# The words of tables that stand in more than one line, and the right edges of the page's parts: of the form's
# fields, of what is at the right, and of the header.
CUT_WORDS = """() => [...document.querySelectorAll("th, td")].flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), cut = [];
  while (texts.nextNode())
    for (const word of texts.currentNode.data.matchAll(/[^\\s\\u00a0]+/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((rect) => rect.top)).size > 1) cut.push(word[0]);
    }
  return cut;
})"""
BESIDE = ".answer, .sides:not(:has(.answer)) > div:last-child"
EDGES = f"""() => ["form textarea", "{BESIDE}, main > ul", ".brand .docs"]
  .map((parts) => [...document.querySelectorAll(parts)].map((part) => part.getBoundingClientRect().right))"""


def check(page, name):
    """Checks that the page does not scroll sideways, and takes a picture if asked to."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        scheme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
        path = Path(folder, f"{name}-{page.viewport_size['width']}-{scheme}.png")
        page.screenshot(path=path, full_page=True)


def answer_of(page, address):
    page.goto(address)
    return page.locator("section[aria-labelledby=answer]")


@pytest.mark.parametrize("page", SCREENS, indirect=True)
def test_looks(page):
    addresses = {
        "overview": "/",
        "none": "/show/none",
        "error": "/show/srl?sentence=Ana+flew.&predicates=sang",
    }
    page.goto("/")
    links = [link.get_attribute("href") for link in page.locator(".cards a").all()]
    tabs = [link for link in links if "?" not in link]
    assert len(tabs) == len(trained_models()) + 1
    for tab in tabs:
        page.goto(tab)
        example = page.locator(".examples a").first.get_attribute("href")
        explain = "&explain=1" if page.get_by_label("Explain").count() else ""
        addresses[tab.rpartition("/")[2]] = page.url + example.replace("#", f"{explain}#")
    for name, address in addresses.items():
        page.goto(address)
        assert page.evaluate(CUT_WORDS) == []
        fields, parts, (edge,) = page.evaluate(EDGES)
        assert set(parts) == {edge}
        # On a wide screen the answer, or what is known of the model, is beside the form.
        assert len(set(fields)) <= 1
        is_beside = page.viewport_size["width"] == 1280 and page.locator(BESIDE).count() == 1
        assert is_beside == (set(fields) not in (set(), {edge}))
        check(page, name)


def test_a_mark_keeps_its_label_over_lines(page):
    answer = answer_of(page, f"/show/srl?sentence={SENTENCE}&predicates=sold")
    mark = answer.locator("mark", has_text="the two brothers who own").bounding_box()
    label = answer.locator("mark", has_text="the two brothers who own").locator("small").bounding_box()
    assert mark["height"] > 3 * label["height"]
    assert label["y"] + label["height"] <= mark["y"] + mark["height"]


def test_lines_with_and_without_marks_have_one_height(page):
    answer = answer_of(page, f"/show/srl?sentence={SENTENCE}&predicates=sold")
    heights = """(text) => {
      const plain = text.cloneNode();
      plain.textContent = "one line";
      text.after(plain);
      const height = plain.getBoundingClientRect().height;
      const mark = (content) => `<mark class="colour-1"><span>${content}</span><small>ARG0</small></mark> b`;
      return [height, ...[mark("one"), mark(mark("one"))].map((html) => {
        plain.innerHTML = html;
        return plain.getBoundingClientRect().height;
      })];
    }"""
    plain, marked, _ = answer.locator(".marked").first.evaluate(heights)
    assert plain == marked
    # Only mentions are nested.
    answer = answer_of(page, "/show/coref?document=Ana+lost+her+keys.+She+cried.")
    assert len(set(answer.locator(".marked").first.evaluate(heights))) == 1


def test_the_answer_has_the_focus(page):
    page.goto("/show/ner")
    page.get_by_label("Text", exact=True).fill("Ana flew to Rome.")
    page.get_by_label("Text", exact=True).press("Enter")
    page.wait_for_url("**#answer")
    assert page.evaluate("document.activeElement.id") == "answer"
    assert 0 <= page.locator("#answer").bounding_box()["y"] < 450


@pytest.mark.parametrize(
    ("tab", "field", "keys", "sends"),
    [
        ("ner", "Text", "Enter", True),
        ("ner", "Text", "Shift+Enter", False),
        ("coref", "Text", "Enter", False),
        ("coref", "Text", "Control+Enter", True),
        ("elmo", "Word", "Control+Enter", True),
    ],
)
def test_keys_that_submit(page, tab, field, keys, sends):
    page.goto("/elmo" if tab == "elmo" else f"/show/{tab}")
    page.evaluate("document.forms[0].noValidate = true")
    page.evaluate(
        "document.forms[0].addEventListener('submit', (e) => { e.preventDefault(); document.title = 'sent' })"
    )
    page.get_by_label(field, exact=True).fill("play")
    page.get_by_label(field, exact=True).press(keys)
    assert (page.title() == "sent") == sends


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
    check(page, f"long-{tab}")
    page.set_viewport_size({"width": 1280, "height": 640})
    field, answer = (page.locator(part).first.bounding_box() for part in ("textarea", ".answer"))
    assert field["x"] + field["width"] < answer["x"]


def test_hebrew_runs_from_the_right(page):
    page.set_viewport_size({"width": 1400, "height": 800})
    words = ["דנה", "נסעה", "אתמול", "לחיפה"]
    page.goto(f"/show/srl?sentence={'+'.join(words)}&predicates={words[1]}")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    xs = [page.locator(".marked").get_by_text(word).bounding_box()["x"] for word in words]
    assert xs == sorted(xs, reverse=True)


def test_by_the_keyboard_alone(page):
    page.goto("/")
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
    page.wait_for_url("**/show/topics?sentence=The+cup+final+was+won.&explain=1#answer")
    words = page.locator("section[aria-labelledby=answer] ruby").all_inner_texts()
    assert [re.split(r"\s", word)[0] for word in words][:4] == ["The", "cup", "final", "was"]


def test_long_inputs_are_not_sent(page):
    page.goto("/show/ner")
    sent = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.url))
    page.get_by_label("Text", exact=True).fill("a " * 151)
    assert page.locator("#status").inner_text() == "151 words, and 150 at most can be read"
    page.get_by_role("button", name="Show").click()
    assert page.evaluate("document.querySelector('#sentence').validationMessage") == (
        "151 words, and 150 at most can be read"
    )
    assert sent == []
    page.get_by_label("Text", exact=True).fill("a b")
    assert page.locator("#status").inner_text() == "Enter shows the answer. At most 150 words and signs."


def test_a_slow_answer_shows_that_it_works(page):
    page.goto("/show/ner")
    page.get_by_label("Text", exact=True).fill("Ana flew.")
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
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["label"] in "01234"


def test_a_cluster_lights_its_mentions_and_leads_to_them(page):
    page.goto("/show/coref?document=Ana+Silva+lost+her+keys.+She+cried.")
    assert page.locator(".lit").count() == 0
    page.locator(".clusters").get_by_role("link", name="She").focus()
    assert page.locator(".lit").evaluate_all("(marks) => marks.map((mark) => mark.textContent)") == [
        "Ana Silva1",
        "her1",
        "She1",
    ]
    page.keyboard.press("Enter")
    page.locator("mark:target", has_text="She").wait_for()


@pytest.mark.parametrize(("tab", "field"), [("ner", "sentence"), ("coref", "document")])
def test_a_table_is_saved_as_csv(page, tab, field):
    page.goto(f"/show/{tab}?{field}=Ana+Silva+lost+her+keys.")
    with page.expect_download() as download:
        page.get_by_role("link", name="csv").click()
    assert download.value.suggested_filename == f"{tab}.csv"
    assert "Ana Silva" in Path(download.value.path()).read_text()


@pytest.mark.parametrize("page", [(1280, "light"), (390, "dark")], indirect=True)
def test_the_docs_ask_a_model(page):
    page.goto("/docs")
    page.get_by_text("/predict/sst", exact=True).click()
    page.get_by_role("button", name="Try it out").click()
    page.locator("textarea").fill('{"sentence": "Good."}')
    page.get_by_role("button", name="Execute").click()
    page.get_by_text("very positive").wait_for()
    check(page, "docs")


def test_without_the_script(browser, address):
    context = browser.new_context(java_script_enabled=False, base_url=address)
    page = context.new_page()
    page.goto("/show/ner")
    page.get_by_label("Text", exact=True).fill("Ana flew.")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/show/ner?sentence=Ana+flew.#answer")
    assert page.get_by_role("heading", name="Answer").is_visible()
    context.close()


def test_a_value_in_a_notebook_has_a_style_of_its_own(browser):
    """In both schemes its text stands on a background of its own; the rest of the notebook stays as it is."""
    html = load("ner")("Ana sings.")._repr_html_()
    rest = "<h1>Title</h1><p><mark>one</mark></p><table><td>1</table>"
    colours = []
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.set_content(f"<body>{rest}</body>")
        before = page.locator("body, body > *, p > mark, td").evaluate_all(COLOURS)
        page.set_content(f"<body>{rest}<div>{html}</div></body>")
        assert page.locator("body, body > :not(div), body > p > mark, td").evaluate_all(COLOURS) == before
        (around,), (mark,) = (
            page.locator(name).evaluate_all(COLOURS) for name in (".elmo-tasks", "div mark")
        )
        colours += [*around[:2], mark[1]]
        page.close()
    assert len(set(colours)) == 6
    assert "rgba(0, 0, 0, 0)" not in colours
