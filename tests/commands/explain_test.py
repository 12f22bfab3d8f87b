import io
import json
from html.parser import HTMLParser

import pytest

from elmo_tasks.commands.explain import METHODS, render
from elmo_tasks.common.files import bundled
from tests.ner.archives import write_run
from tests.sst.archives import write_archive

pytestmark = pytest.mark.filterwarnings("ignore:Using a non-full backward hook:FutureWarning")
LINES = [{"sentence": "Paris <b>won</b> & lost ."}, {"tokens": []}, {"tokens": ["Norway", "won"]}]


class Marked(HTMLParser):
    """The words of a page in colours."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.inside = tag == "ruby"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.words.append(data)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


@pytest.mark.parametrize("method", METHODS)
def test_words_and_their_shares(elmo, source, tmp_path, method, terminal, capsys):
    output = tmp_path / "out" / "explained.jsonl"
    assert elmo("explain", write_archive(tmp_path / "run"), source, output, "--method", method) == 0
    printed = capsys.readouterr()
    assert "3 inputs" in printed.out
    assert "explain:   0%" in printed.err
    explained = [json.loads(line) for line in output.read_text().splitlines()]
    shown = []
    for each, line in zip(explained, LINES, strict=True):
        words = each["result"]["tokens"]
        assert words == line.get("tokens", words)
        assert len(each["explanations"]) == bool(words)
        for ((text,),) in [each["explanations"]] if words else []:
            assert text["tokens"] == words
            assert sum(text["shares"]) == pytest.approx(1)
            assert min(text["shares"]) >= 0
            shown += words
    page = (tmp_path / "out" / "explained.jsonl.html").read_text()
    assert Marked(page).words == shown
    assert "<b>won" not in page
    assert "http" not in page


def test_every_entity_is_explained(elmo, source, tmp_path):
    write_run(tmp_path / "run", seed=0, bilm=bundled("fixtures/elmo"))
    output = tmp_path / "explained.jsonl"
    assert elmo("explain", tmp_path / "run", source, output) == 0
    for line in output.read_text().splitlines():
        each = json.loads(line)
        entities = len(each["result"]["entities"])
        assert len(each["explanations"]) == (max(1, entities) if each["result"]["tokens"] else 0)
    assert elmo("explain", tmp_path / "run", source, output) == 1
    before = output.read_text()
    assert elmo("explain", tmp_path / "run", source, output, "--force", "--through-elmo") == 0
    assert output.read_text() != before


def test_what_comes_before_a_bad_line_is_kept(elmo, source, tmp_path, capsys):
    source.write_bytes(b'{"sentence": "a"}\n{"sentence": "\xff"}\n{"sentence": "b"}\n')
    output = tmp_path / "out.jsonl"
    assert elmo("explain", write_archive(tmp_path / "run"), source, output) == 1
    assert "line 2 (blank lines not counted): found the byte 0xff" in capsys.readouterr().err
    (explained,) = map(json.loads, output.read_text().splitlines())
    assert explained["result"]["tokens"] == ["a"]
    assert Marked((tmp_path / "out.jsonl.html").read_text()).words == ["a"]


def test_standard_input_and_a_file_that_is_not_there(elmo, tmp_path, monkeypatch, capsys):
    archive = write_archive(tmp_path / "run")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"tokens": ["a"]}\n')))
    assert elmo("explain", archive, "-", tmp_path / "out.jsonl") == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 1
    assert elmo("explain", archive, tmp_path / "nothing.jsonl", tmp_path / "other.jsonl") == 1
    assert "nothing.jsonl not found" in capsys.readouterr().err
    assert not list(tmp_path.glob("other.jsonl*"))


def test_a_word_without_a_gradient_has_no_colour():
    result = {"sentence": "한국 <b>", "a": 2}
    page = render([{"result": result, "explanations": [[{"tokens": ["a"], "shares": [0.0]}]]}])
    assert "{&#34;sentence&#34;: &#34;한국 &lt;b&gt;&#34;, &#34;a&#34;: 2}" in page
    assert '<ruby class="heat-0">a<rt>.00</rt></ruby>' in page


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.html"])
def test_the_input_is_not_overwritten(elmo, source, tmp_path, name, capsys):
    lines = source.rename(tmp_path / name)
    assert elmo("explain", "archive", lines, tmp_path / "in.jsonl", "--force") == 1
    assert f"{lines} is the input, expected another file for the output" in capsys.readouterr().err
    assert json.loads(lines.read_text().splitlines()[0]) == LINES[0]
