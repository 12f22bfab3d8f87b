"""`allennlp elmo confusion`, `squad-predictions` and `explain`: what an archived model says of data."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.models.archival import archive_model
from allennlp.predictors import Predictor
from sklearn.metrics import confusion_matrix

from elmo_tasks.common.files import bundled
from elmo_tasks.pipeline.explanations import METHODS
from elmo_tasks.squad.score import report
from tests.errors import mentions
from tests.language_model.archives import TEXT
from tests.language_model.archives import write_run as write_language_model
from tests.ner.archives import write_run as write_ner
from tests.pipeline.archives import write_archive
from tests.records import json_lines
from tests.squad.archives import DEV as SQUAD
from tests.squad.archives import UNANSWERABLE


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A classifier."""
    return write_archive(tmp_path_factory.mktemp("archive") / "run")


class TestConfusion:
    DATA = bundled("fixtures/sst/dev.txt")

    def table(self, shown: str) -> list[list[str]]:
        return [line.strip("| ").split(" | ") for line in shown.splitlines() if line.startswith("|")]

    def test_table_and_picture(self, elmo, archive, tmp_path, capsys):
        picture = tmp_path / "confusion.png"
        assert elmo("confusion", archive, self.DATA, picture) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert list(tmp_path.iterdir()) == [picture]
        shown = capsys.readouterr().out
        rows = self.table(shown)
        assert rows[0] == ["gold", "as 0", "as 1", "as 2", "as 3", "as 4", "precision", "recall", "f1"]
        predictor = Predictor.from_path(str(archive), import_plugins=False)
        instances = list(predictor._dataset_reader.read(str(self.DATA)))
        gold = [instance["label"].label for instance in instances]
        # One sentence at a time
        predicted = [predictor.predict_instance(instance)["label"] for instance in instances]
        matrix = confusion_matrix(gold, predicted, labels=list("01234"))
        assert [row[:6] for row in rows[2:]] == [
            [label, *map(str, row)] for label, row in zip("01234", matrix.tolist(), strict=True)
        ]
        metrics = evaluate_from_archive(archive, str(self.DATA))
        assert f"accuracy {metrics['accuracy']:.4f}, macro F1 {metrics['macro_f1']:.4f}" in shown
        assert shown.endswith(f"\n{picture}: the shares of 5 classes\n")
        # The matrix is among the metrics that `allennlp evaluate` writes, too.
        assert metrics["confusion-4-0"] == matrix[4, 0]
        assert json.loads(json.dumps(metrics)) == metrics

    def test_the_words_of_a_bilm(self, elmo, tmp_path, capsys):
        write_language_model(tmp_path / "run", frequent_words=3)
        text = tmp_path / "text.txt"
        text.write_text(TEXT, encoding="utf-8")
        archive = archive_model(tmp_path / "run")
        assert elmo("confusion", archive, text, tmp_path / "words.png") == 0
        shown = capsys.readouterr().out
        metrics = evaluate_from_archive(archive, str(text))
        labels = ["</S>", "the", "cat", "other words"]
        rows = self.table(shown)
        assert rows[0] == ["gold", *(f"as {label}" for label in labels), "precision", "recall", "f1"]
        assert [row[:5] for row in rows[2:]] == [
            [gold, *(f"{metrics[f'confusion-{gold}-{label}']:.0f}" for label in labels)] for gold in labels
        ]
        assert f"macro F1 {metrics['macro_f1']:.4f}" in shown
        write_language_model(tmp_path / "plain")
        assert elmo("confusion", tmp_path / "plain", text, tmp_path / "plain.png") == 1
        assert "frequent_words" in capsys.readouterr().err

    def test_other_models_and_data(self, elmo, archive, tmp_path, capsys):
        write_ner(tmp_path / "ner", seed=0, bilm=bundled("fixtures/elmo"))
        (tmp_path / "trees.txt").write_text("(3 (6 It))")
        for model, data, message in (
            (tmp_path / "ner", self.DATA, "NerModel"),
            (archive, tmp_path / "trees.txt", "trees.txt, line 1: "),
        ):
            assert elmo("confusion", model, data, tmp_path / "confusion.png") == 1
            assert message in capsys.readouterr().err
        assert not list(tmp_path.glob("confusion*"))


class TestSquadPredictions:
    @pytest.fixture
    def run(self, tmp_path):
        return write_archive(tmp_path / "run", "squad")

    def test_the_official_format(self, elmo, run, tmp_path, capsys):
        output = tmp_path / "out/predictions.json"
        assert elmo("squad-predictions", run, SQUAD, output, "--batch-size", "6") == 0
        assert capsys.readouterr().out == f"{output}: 16 answers\n"
        predictions = json.loads(output.read_text())
        assert list(predictions) == [f"dev-{number:03d}" for number in range(1, 17)]
        passages = {
            question["id"]: paragraph["context"]
            for article in json.loads(Path(SQUAD).read_text(encoding="utf-8"))["data"]
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        }
        assert all(answer and answer in passages[id] for id, answer in predictions.items())
        assert set(json.loads(report(SQUAD, str(output)))) == {"exact_match", "f1"}
        assert elmo("squad-predictions", run, UNANSWERABLE, output, "--force") == 0
        assert len(json.loads(output.read_text())) == 14


LINES = [{"sentence": "Paris <b>won</b> & lost ."}, {"tokens": []}, {"tokens": ["Norway", "won"]}]


def words_in_colours(page: Path) -> list[str]:
    return [unescape(word) for word in re.findall(r"<ruby[^>]*>([^<]*)<rt>", page.read_text())]


class TestExplain:
    @pytest.fixture
    def source(self, tmp_path):
        path = tmp_path / "in.jsonl"
        path.write_text(json_lines(*LINES))
        return path

    @pytest.mark.parametrize("method", METHODS)
    def test_words_and_their_shares(self, elmo, archive, source, tmp_path, method, terminal, capsys):
        output = tmp_path / "out" / "explained.jsonl"
        assert elmo("explain", archive, source, output, "--method", method) == 0
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
        assert words_in_colours(tmp_path / "out" / "explained.jsonl.html") == shown
        assert "<b>won" not in page
        assert "http" not in page

    def test_every_entity_is_explained(self, elmo, source, tmp_path):
        write_ner(tmp_path / "run", seed=0, bilm=bundled("fixtures/elmo"))
        command = ("explain", tmp_path / "run", source, tmp_path / "explained.jsonl")
        command += ("--method", "simple-gradient")
        assert elmo(*command) == 0
        before = (tmp_path / "explained.jsonl").read_text()
        for each in map(json.loads, before.splitlines()):
            entities = len(each["result"]["entities"])
            assert len(each["explanations"]) == (max(1, entities) if each["result"]["tokens"] else 0)
        assert elmo(*command) == 1
        assert elmo(*command, "--force", "--through-elmo") == 0
        assert (tmp_path / "explained.jsonl").read_text() != before

    def test_results_before_a_bad_line_are_written(self, elmo, archive, source, tmp_path, capsys):
        source.write_bytes(b'{"sentence": "a"}\n{"sentence": "\xff"}\n{"sentence": "b"}\n')
        output = tmp_path / "out.jsonl"
        assert elmo("explain", archive, source, output) == 1
        assert mentions(capsys.readouterr().err, "line 2", "0xff")
        (explained,) = map(json.loads, output.read_text().splitlines())
        assert explained["result"]["tokens"] == ["a"]
        assert words_in_colours(tmp_path / "out.jsonl.html") == ["a"]

    def test_nothing_is_written_of_a_bad_first_line_or_to_the_name_of_a_page(
        self, elmo, archive, source, tmp_path, capsys
    ):
        source.write_text("A plain text .\n")
        assert elmo("explain", archive, source, tmp_path / "out.jsonl") == 1
        assert mentions((shown := capsys.readouterr()).err, "line 1")
        assert not shown.out
        source.write_text('{"sentence": "a"}\n')
        assert elmo("explain", archive, source, tmp_path / "out.html") == 1
        assert mentions(capsys.readouterr().err, str(tmp_path / "out.html"), "out.jsonl")
        assert not list(tmp_path.glob("out*"))
