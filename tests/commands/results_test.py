"""The files of results that verbs write, shown by `mix`, and `report`, which collects them."""

import csv
import io
import os
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from elmo_tasks.commands.results import ReportEntry, ResultsWriter
from elmo_tasks.common.table import Table
from elmo_tasks.evaluation.plots import bars
from tests.ner.archives import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", {"input": [0.0, 1.0, 2.0]})


class TestMix:
    def test_several_archives(self, elmo, tmp_path):
        scores = {"input": [0.0, 1.0, -2.0], "output": [3.0, 0.0, 0.5]}
        both = make_run(tmp_path / "both", scores, placement="input+output")
        function = make_run(tmp_path / "function", {}, weights="function", gamma=False)
        assert elmo("mix", both, function, "-o", tmp_path / "mix.csv") == 0
        rows = list(csv.DictReader((tmp_path / "mix.csv").open()))
        shares = [[row.pop(f"layer {layer}") for layer in range(3)] for row in rows]
        assert [list(row.values()) for row in rows] == [
            [str(both), "elmo_ner", "input", "trainable", "1.5"],
            [str(both), "elmo_ner", "output", "trainable", "1.5"],
            [str(function), "elmo_ner", "input", "function", "1.0"],
        ]
        for found, row in zip(shares, scores.values(), strict=False):
            assert list(map(float, found)) == pytest.approx(np.exp(row) / np.exp(row).sum())
        assert shares[2] == ["", "", ""]


class TestFiles:
    def test_they_lie_beside_each_other(self, elmo, run, tmp_path, capsys):
        output = tmp_path / "out/results.csv"
        assert elmo("mix", run, "-o", output) == 0
        assert {path.suffix for path in output.parent.iterdir()} == {".csv", ".md", ".png", ".svg"}
        shown = capsys.readouterr().out
        assert shown.startswith(output.with_suffix(".md").read_text())
        assert shown.endswith(f"\n{output}: also results.svg, results.png, results.md\n")
        assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        picture = output.with_suffix(".svg").read_bytes()
        assert b"<svg" in picture
        assert elmo("mix", run, "-o", output, "--force") == 0
        assert output.with_suffix(".svg").read_bytes() == picture
        # The picture of another table does not stay.
        (tmp_path / "text").write_text("We play chess .\nThey play .\n")
        assert elmo("neighbors", "play", "--corpus", tmp_path / "text", "-o", output, "--force") == 0
        assert sorted(os.listdir(output.parent)) == ["results.csv", "results.md"]

    def test_a_console_that_lacks_characters(self, elmo, run, tmp_path, monkeypatch):
        run = run.rename(tmp_path / "Łódź")
        console = io.TextIOWrapper(shown := io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", console)
        assert elmo("mix", run, "-o", tmp_path / "mix.csv") == 0
        console.flush()
        assert rb"\N{LATIN CAPITAL LETTER L WITH STROKE}" in shown.getvalue()
        assert "Łódź" in (tmp_path / "mix.csv").read_text(encoding="utf-8")

    def test_an_output_that_cannot_be_written_is_found_before_the_work(self, elmo, tmp_path, capsys):
        """There is no such archive, either."""
        (tmp_path / "file").touch()
        for output, message in (
            ("file/out.csv", "file/out.csv.partial: Not a directory"),
            ("out.txt", "out.txt"),
        ):
            assert elmo("mix", "nowhere.tar.gz", "-o", tmp_path / output) == 1
            assert message in capsys.readouterr().err
        assert os.listdir(tmp_path) == ["file"]


def texts(html, tag):
    """Returns the texts of all elements of a tag, in their order."""
    found = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", html, flags=re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", text)).strip() for text in found]


def write(path, *names):
    """Writes results as a verb does."""
    table = Table(("test", "vectors", "score", "pairs"))
    for i, name in enumerate(names):
        table.add("WordSim", name, i / 3, None)
    work = path.parent / "work"
    work.mkdir(parents=True)
    ResultsWriter(work, path).write(table, bars(table, groups="test", bars="vectors", heights="score"))
    work.rmdir()


class TestReport:
    @pytest.fixture
    def report(self, elmo, tmp_path, monkeypatch, capsys):
        """The page of three results, one without a picture; another CSV file is none."""
        monkeypatch.chdir(tmp_path)
        write(tmp_path / "runs/ner/layers.csv", "łódź", "<script>alert(1)</script>")
        write(tmp_path / "runs/sst/layers.csv", "one", "two", "three")
        write(tmp_path / "runs/sst/words.csv", "& more")
        for kind in ("png", "svg"):
            (tmp_path / f"runs/sst/words.{kind}").unlink()
        (tmp_path / "runs/sst/layers.svg").unlink()  # as an older version wrote them
        (tmp_path / "runs/train.csv").write_text("text\nno result\n")
        os.mkfifo(tmp_path / "runs/pipe.csv")
        (tmp_path / "passwords").write_text("secret\n")
        for link in ("runs/link.csv", "runs/sst/words.svg"):
            (tmp_path / link).symlink_to(tmp_path / "passwords")
        for name in ("link", "pipe"):
            (tmp_path / f"runs/{name}.md").touch()
        assert elmo("report", "runs", "runs/sst", "-o", "report.html") == 0
        assert capsys.readouterr().out.endswith("report.html: 3 results\n")
        return tmp_path / "report.html"

    def test_each_csv_is_a_table_under_its_title(self, report):
        html = report.read_text(encoding="utf-8")
        titles = [f"Similarity and analogies: {name}" for name in ("layers (ner)", "layers (sst)", "words")]
        assert texts(html, "h2") == ["Summary", *titles]
        assert texts(html, "a") == titles
        assert texts(html, "code") == ["runs/ner/layers.csv", "runs/sst/layers.csv", "runs/sst/words.csv"]
        columns = ["test", "vectors", "score", "pairs"]
        assert texts(html, "th") == ["result", "rows", "best", *columns * 3]
        assert texts(html, "td")[1:3] == ["2", "score 0.3333: WordSim, <script>alert(1)</script>"]
        assert texts(html, "td")[9:17] == [
            *("WordSim", "łódź", "0.0000", ""),
            *("WordSim", "<script>alert(1)</script>", "0.3333", ""),
        ]
        assert texts(html, "td")[-4:] == ["WordSim", "& more", "0.0000", ""]
        assert '<td>łódź</td><td class="number">0.0000</td>' in re.sub(r"\s*\n\s*", "", html)
        # A picture comes before its table.
        parts = re.findall(r"<(h2|img|table)\b", html)
        assert parts == ["h2", "table", "h2", "img", "table", "h2", "img", "table", "h2", "table"]

    def test_neighbours_and_mixes(self, elmo, tmp_path, monkeypatch):
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
        assert '<mark class="word">play</mark>' in html
        assert "&lt;chess&gt; **\u00a0." in html
        assert texts(html, "h2") == ["Summary", "Learned mixes: mix", "Nearest neighbours: near"]
        assert texts(html, "td")[6:10] == ["ner", "1.0000", "sst", "1.0000"]

    def test_it_needs_nothing_else(self, report):
        html = report.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|iframe)\b", html)
        addresses = re.findall(r'\b(?:src|href)="([^"]*)"', html)
        assert len(addresses) == 3 + 2
        allowed = ("#result-", "data:image/svg+xml;base64,", "data:image/png;base64,")
        assert all(address.startswith(allowed) for address in addresses)
        assert not re.search(r"url\(|@import|https?:", html)

    @pytest.mark.parametrize(
        ("table", "best"),
        [
            ("test,vectors,score\na,layer 0,nan\nb,layer 0,nan\n", ""),
            ("test,vectors,score\na,layer 0,0.5\na,layer 1,nan\n", "score 0.5000: a, layer 0"),
            # Scores of different tests cannot be compared.
            ("test,section,vectors,score\na,x,layer 0,0.5\na,y,layer 0,0.25\n", ""),
            (
                "fraction,training instances,ELMo,f1,standard deviation\n"
                "0.5,10,without,0.2,\n0.5,10,with,0.4,\n1.0,20,without,0.3,\n1.0,20,with,0.5,\n",
                "f1 0.5000: fraction 1, with",
            ),
            ("variant,loss,runs\ninput,0.7,1\noutput,0.6,1\n", "loss 0.6000: output"),
        ],
    )
    def test_the_best_of_a_table(self, elmo, tmp_path, table, best):
        path = tmp_path / "table.csv"
        path.write_text(table)
        path.with_suffix(".md").touch()
        assert ReportEntry.read(path).best() == best
        assert elmo("report", path, "-o", tmp_path / "out.html") == 0

    def test_errors(self, elmo, report, capsys):
        Path("empty").mkdir()
        (report.parent / "runs/ner/layers.csv").write_text("a,b\n1\n")
        for paths, output, message in (
            (["runs"], report, f"{report} exists"),
            (["runs", "empty"], "new.html", "empty: "),
            (["runs", "nowhere"], "new.html", "nowhere: "),
            (["runs"], "new.html", "runs/ner/layers.csv, line 2: "),
        ):
            assert elmo("report", *paths, "-o", output) == 1
            assert capsys.readouterr().err.startswith(f"error: {message}")
        assert not (report.parent / "new.html").exists()
