"""
Takes the pictures of the page for the README and the site: `make pictures`, with Chromium or Chrome.

A text next to them has the version that they show, and what the page says of the model.
"""

import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
WIDTH, HEIGHT = 900, 625
CORPUS = HERE.parent / "fixtures/evaluation/corpus.txt"
NAMES = {"sentence": "Angela Merkel met Barack Obama in Berlin before the United Nations voted."}
WORD = {
    "word": "play",
    "sentence": "We play chess after school.",
    "other": "She wrote a play for the theatre.",
}
PICTURES = {"page.png": ("/show/ner", NAMES, "body"), "words.png": ("/elmo", WORD, "#answer")}
"""The path, the form, and the part of the page that comes first, by the name of the file."""


def take_pictures(address: str) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for name, (path, form, first) in PICTURES.items():
            page.goto(f"{address}{path}?{urlencode(form)}")
            page.locator(first).evaluate("(part) => scrollTo(0, part.getBoundingClientRect().top - 24)")
            picture = Image.open(BytesIO(page.screenshot())).quantize(dither=Image.Dither.NONE)
            picture.save(HERE / "images" / name, optimize=True)
            if name == "page.png":
                version = page.locator(".brand .fine").inner_text()
                card = page.get_by_text("trained on").text_content()
                (HERE / "images/page.txt").write_text(f"{version}\n{card}\n", encoding="utf-8")
        chromium.close()


def main() -> None:
    command = [sys.executable, "-m", "allennlp", "elmo", "serve", "elmo:ner", "elmo:sst", "elmo:topics"]
    with subprocess.Popen(
        [*command, "--port", "0", "--corpus", str(CORPUS)], stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        try:
            take_pictures(next(line.split("/ ")[0] for line in service.stdout if "is the page" in line))
        finally:
            service.terminate()


if __name__ == "__main__":
    main()
