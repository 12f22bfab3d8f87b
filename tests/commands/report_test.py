"""`allennlp elmo report`, opened in a real browser where there is one."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import pytest

from elmo_tasks.commands.report import ReportEntry
from elmo_tasks.commands.results import ResultsWriter
from elmo_tasks.common.plot import bars
from elmo_tasks.common.table import Table

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
MEASURE = """<script>
onload = () => {
  for (const image of document.images) image.title = `${image.naturalHeight} ${image.naturalWidth}`;
};
</script>"""
"""What a decoded picture has, and one that is broken has not."""


class Page(HTMLParser):
    """The texts of headings and cells, in their order, and the attributes of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.elements: dict[str, list[dict[str, str | None]]] = {}
        self._tag = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self._tag = tag
        self.texts.setdefault(tag, []).append("")
        self.elements.setdefault(tag, []).append(dict(attrs))

    def handle_data(self, data):
        if self._tag and data.strip():
            self.texts[self._tag][-1] += data

    def handle_endtag(self, tag):
        self._tag = ""


def write(path, *names):
    """Results as a verb writes them."""
    table = Table(("test", "vectors", "score", "pairs"))
    for number, name in enumerate(names):
        table.add(name, "layer 0", number / 3, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.parent / "work"
    work.mkdir()
    ResultsWriter(work, path).write(table, bars(table, groups="test", bars="vectors", heights="score"))
    work.rmdir()


@pytest.fixture
def report(elmo, tmp_path, monkeypatch, capsys):
    """The page of three results, one without a picture; another CSV file is none."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs/ner/layers.csv", "łódź", "<script>alert(1)</script>")
    write(tmp_path / "runs/sst/layers.csv", "one", "two", "three")
    write(tmp_path / "runs/sst/words.csv", "& more")
    for kind in ("png", "svg"):
        (tmp_path / f"runs/sst/words.{kind}").unlink()
    (tmp_path / "runs/sst/layers.svg").unlink()  # as an older version wrote them
    (tmp_path / "runs/train.csv").write_text("text\nno result\n")
    assert elmo("report", "runs", "runs/sst", "-o", "report.html") == 0
    assert capsys.readouterr().out.endswith("report.html: 3 results\n")
    return tmp_path / "report.html"


def test_each_csv_is_a_table_under_its_title(report):
    page = Page(report.read_text(encoding="utf-8"))
    titles = [f"Similarity and analogies: {name}" for name in ("layers (ner)", "layers (sst)", "words")]
    assert page.texts["h2"] == ["Summary", *titles]
    assert page.texts["a"] == titles
    assert page.texts["code"] == ["runs/ner/layers.csv", "runs/sst/layers.csv", "runs/sst/words.csv"]
    assert page.texts["th"] == ["result", "rows", "best", *["test", "vectors", "score", "pairs"] * 3]
    assert page.texts["td"][1:3] == ["2", "score 0.3333: <script>alert(1)</script>, layer 0"]
    assert page.texts["td"][9:17] == [
        *("łódź", "layer 0", "0.0000", ""),
        *("<script>alert(1)</script>", "layer 0", "0.3333", ""),
    ]
    assert page.texts["td"][-4:] == ["& more", "layer 0", "0.0000", ""]
    assert page.elements["td"][10:12] == [{}, {"class": "number"}]


def test_neighbours_and_mixes(elmo, tmp_path, monkeypatch):
    """The word of a neighbour is marked; an archive has the name of its run."""
    monkeypatch.chdir(tmp_path)
    for name, table in {
        "near": Table(("query", "cosine"), [("They **play** <chess> ** .", 0.5)]),
        "mix": Table(("archive", "gamma"), [("runs/ner/model.tar.gz", 1.0), ("runs/sst", 1.0)]),
    }.items():
        Path(f"{name}.csv").write_text(table.csv())
        Path(f"{name}.md").write_text(table.markdown())
    assert elmo("report", ".", "-o", "report.html") == 0
    html = Path("report.html").read_text()
    assert '<mark class="entity colour-0">play<span' in html
    assert "&lt;chess&gt; ** ." in html
    page = Page(html)
    assert page.texts["h2"] == ["Summary", "Learned mixes: mix", "Nearest neighbours: near"]
    assert page.texts["td"][6:10] == ["ner", "1.0000", "sst", "1.0000"]


def test_needs_nothing_else(report):
    html = report.read_text(encoding="utf-8")
    page = Page(html)
    assert {"script", "link", "iframe"}.isdisjoint(page.elements)
    addresses = [
        address
        for elements in page.elements.values()
        for element in elements
        for key, address in element.items()
        if key in ("src", "href")
    ]
    assert len(addresses) == 3 + 2
    assert all(
        address.startswith(("#result-", "data:image/svg+xml;base64,", "data:image/png;base64,"))
        for address in addresses
    )
    assert not re.search(r"url\(|@import|https?:", html)


@pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome")
def test_a_browser_shows_it(report, tmp_path):
    plain = report.read_text(encoding="utf-8")
    measured = tmp_path / "measured.html"
    measured.write_text(plain.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    shown = subprocess.run(
        [BROWSER, *OPTIONS, profile, "--dump-dom", measured.as_uri()],
        capture_output=True,
        check=True,
        timeout=120,
    )
    page, written = Page(shown.stdout.decode("utf-8")), Page(plain)
    for tag in ("title", "h1", "h2", "code", "a", "th", "td"):
        assert page.texts[tag] == written.texts[tag]
    drawn, old = (image["title"] for image in page.elements["img"])
    assert "0" not in drawn.split()
    assert old == "{} {}".format(*matplotlib.image.imread(tmp_path / "runs/sst/layers.png").shape)


def test_no_score_is_the_best_of_none(elmo, tmp_path):
    write(tmp_path / "in/one.csv", "a")
    path = tmp_path / "in/one.csv"
    for score, best in (("nan", ""), ("0.5", "score 0.5000: a, layer 0")):
        path.write_text(f"test,vectors,score,pairs\na,layer 0,{score},1\nb,layer 0,nan,1\n")
        assert ReportEntry.read(path).best() == best
        assert elmo("report", tmp_path / "in", "-o", tmp_path / "out.html", "--force") == 0


@pytest.mark.parametrize(
    ("table", "best"),
    [
        (
            "fraction,training instances,ELMo,f1,standard deviation\n"
            "0.5,10,without,0.2,\n0.5,10,with,0.4,\n1.0,20,without,0.3,\n1.0,20,with,0.5,\n",
            "f1 0.5000: fraction 1, with",
        ),
        ("variant,loss,runs\ninput,0.7,1\noutput,0.6,1\n", "loss 0.6000: output"),
    ],
)
def test_the_best_of_a_table(tmp_path, table, best):
    path = tmp_path / "table.csv"
    path.write_text(table)
    assert ReportEntry.read(path).best() == best


def test_a_file_of_results(elmo, report, capsys):
    assert elmo("report", "runs/ner/layers.csv", "runs", "-o", "new.html") == 0
    both = capsys.readouterr().out
    assert elmo("report", "runs", "-o", "new.html", "--force") == 0
    assert capsys.readouterr().out == both
    assert elmo("report", "runs/ner/layers.csv", "-o", "new.html", "--force") == 0
    assert capsys.readouterr().out == "new.html: 1 results\n"


def test_errors(elmo, report, capsys):
    assert elmo("report", "runs", "-o", report) == 1
    assert f"{report} exists; --force overwrites it" in capsys.readouterr().err
    (report.parent / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        assert elmo("report", "runs", folder, "-o", "new.html") == 1
        message = f"error: {folder}: found no results, expected a CSV file with its Markdown beside it\n"
        assert capsys.readouterr().err == message
    (report.parent / "runs/ner/layers.csv").write_text("a,b\n1\n")
    assert elmo("report", "runs", "-o", "new.html") == 1
    assert capsys.readouterr().err == "error: runs/ner/layers.csv, line 2: found 1 cells, expected 2: a, b\n"
    assert not (report.parent / "new.html").exists()
