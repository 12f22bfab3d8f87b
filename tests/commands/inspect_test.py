"""`allennlp elmo inspect` finds the shape of data without a hint."""

import gzip
import json
import shlex
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from elmo_tasks.commands.inspect import Inspect
from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.snli.reader import SnliReader
from tests.errors import error_of, mentions

FIXTURES = bundled("fixtures").resolve()


def inspected(capsys: pytest.CaptureFixture[str], path: Any, task: str | None = None) -> dict[str, Any]:
    """Returns the object that `--json` prints."""
    Inspect(path=str(path), task=task, json=True).run()
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("path", "format", "records", "tokens", "labels", "also"),
    [
        ("ner/train.conll", "columns", 200, 3128, {"LOC": 119, "PER": 84, "MISC": 63, "ORG": 60}, []),
        ("srl/dev.conll", "conll2012", 24, 222, {}, ["ner"]),
        ("coref/train.conll", "conll2012", 12, 798, {"mention": 200, "cluster": 69}, ["srl", "ner"]),
        ("squad/train.json", "json", 49, 1118, {"answer": 49}, []),
        ("squad/unanswerable.json", "json", 14, 250, {"answer": 8, "no answer": 6}, []),
        ("sst/train.txt", "trees", 120, 1173, {"3": 26, "1": 25, "2": 23}, []),
        ("snli/train.jsonl", "json", 108, 2055, {"entailment": 36, "neutral": 36}, ["classification"]),
        ("classification/agnews/train.csv", "csv without a header", 80, 1432, {"1": 20}, []),
        ("classification/mrpc/train.txt", "tsv", 60, 1436, {"0": 30, "1": 30}, []),
        ("classification/sst2/train.tsv", "tsv", 80, 833, {"0": 40, "1": 40}, []),
        ("classification/klue_tc/train.json", "json", 84, 465, {"경제": 12}, []),
    ],
)
def test_fixtures_without_a_hint(capsys, path, format, records, tokens, labels, also):
    found = inspected(capsys, FIXTURES / path)
    task, _, _ = path.partition("/")
    assert (found["task"], found["format"], found["encoding"]) == (task, format, "utf-8")
    assert found["warnings"] == []
    assert (found["records"], found["tokens"]) == (records, tokens)
    assert labels.items() <= found["labels"].items()
    assert [each["task"] for each in found["also"]] == also
    reader = DatasetReader.from_params(Params(found["dataset_reader"]))
    assert len(list(reader.read(str(FIXTURES / path)))) >= records - 5


TEXT, CLASSES = "text for a biLM", "classification"
PREMISE, HYPOTHESIS = "Ann runs home in the rain.", 'It "rains.'


@pytest.mark.parametrize(
    ("content", "task", "keys", "labels"),
    [
        (
            'v1,v2,,,\nham,"Go on, then",,,\nspam,You win \xa3150,,,\nham,Well then ok,"no, more",,\n',
            CLASSES,
            {"encoding": "cp1252", "sentence1": "v2", "label": "v1", "classes": ["ham", "spam"]},
            {"ham": 2, "spam": 1},
        ),
        (
            "ham\tWell then ok\nspam\tYou win a lot\nham\tGo on now\n",
            CLASSES,
            {"columns": ["column1", "column2"], "label": "column1", "sentence1": "column2"},
            {"ham": 2, "spam": 1},
        ),
        (
            "pair_ID\tsentence_A\tsentence_B\tentailment_label\tSemEval_set\n"
            f"1\t{PREMISE}\tShe runs.\tENTAILMENT\tTRAIN\n2\t{PREMISE}\tIt rains.\tNEUTRAL\tTRAIN\n",
            "snli",
            {},
            {"entailment": 1, "neutral": 1},
        ),
        (
            f"premise\thypo\tlabel\n{PREMISE}\t{HYPOTHESIS}\tcontradictory\n{PREMISE}\tNo.\tneutral\n",
            "snli",
            {"classes": ["contradictory", "neutral"]},
            {"contradictory": 1, "neutral": 1},
        ),
        (
            '{"context": "Ann runs.", "question": "Who?", "answers": {"text": [], "answer_start": []}}\n',
            "squad",
            {"unanswerable": True},
            {"no answer": 1},
        ),
    ],
)
def test_published_shapes_without_a_hint(capsys, tmp_path, content, task, keys, labels):
    (tmp_path / "a").write_bytes(content.encode("cp1252"))
    found = inspected(capsys, tmp_path / "a", task)
    assert found["labels"] == labels
    assert keys.items() <= found["dataset_reader"].items()


@pytest.mark.parametrize(
    ("names_and_contents", "task", "records"),
    [
        ({"a": "gem jewel 3.94\ncar automobile 3.92\nnoon string 0.04\n"}, "similarity", 3),
        ({"a": ",word1,word2,similarity\n0,gem,jewel,3.94\n1,car,automobile,3.92\n"}, "similarity", 2),
        (
            {
                "a": '{"task": "a", "sentence": "b", "label": "c"}\n'
                '{"task": "d", "sentence1": "e", "sentence2": "f"}\n'
            },
            "sentences of several tasks",
            2,
        ),
        ({"a": ": capital\nAthens Greece Oslo Norway\n"}, "analogies", 1),
        ({"D01.txt": "arm\tarmless\nart\tartless/unart\n"}, "analogies", 2),
        ({"t.data.txt": "run\tV\t0-1\trun on\ta run\n", "t.gold.txt": "F\n"}, "words in context", 1),
        ({"a": '{"lemma": "a", "tokens": ["a", "b"], "index": 0, "sense": "x"}\n'}, "word senses", 1),
        ({"a": "I\tPRON\nrun\tVERB\n\nYou\tPRON\n"}, "parts of speech", 2),
        ({"a": "A plain text .\nIt has some sentences .\nEach has its own length here .\n"}, TEXT, 3),
    ],
)
def test_data_of_probes(capsys, tmp_path, names_and_contents, task, records):
    for name, content in names_and_contents.items():
        (tmp_path / name).write_text(content)
    path = tmp_path / next(iter(names_and_contents))
    found = inspected(capsys, path)
    assert (found["task"], found["records"], found["dataset_reader"]) == (task, records, {})
    assert str(path) in found["command"]
    Inspect(path=str(path), task=None, json=False).run()
    assert capsys.readouterr().out.rstrip().endswith(found["command"])


def test_a_text_of_several_files(capsys, tmp_path):
    for i, content in enumerate(["A plain text .\nIt has three lines .\nSo .\n", "\nThe end is here .\n"]):
        (tmp_path / f"part-{i}.gz").write_bytes(gzip.compress(content.encode()))
    text = inspected(capsys, tmp_path / "*.gz")
    assert (text["task"], text["records"], text["tokens"]) == ("text for a biLM", 4, 16)
    assert mentions(text["command"], f'"train_data_path": "{tmp_path / "*.gz"}"', "validation_data_path")


def test_text_for_people(capsys):
    Inspect(path=str(FIXTURES / "squad/unanswerable.json"), task=None, json=False).run()
    shown = capsys.readouterr().out
    assert '"unanswerable": true' in shown
    assert "allennlp train training_configs/squad_elmo.jsonnet" in shown
    assert '"dataset_reader.unanswerable": true' in shown
    path = str(FIXTURES / "ner/predict.jsonl")
    Inspect(path=path, task=None, json=False).run()
    assert capsys.readouterr().out.endswith(f"allennlp predict elmo:ner {path} --use-dataset-reader\n")


@pytest.mark.parametrize(
    ("content", "tasks"),
    [
        (
            "".join(f"{word} sank {i * 'the '}boat ?\n" for i in range(5) for word in ("who", "what")),
            [TEXT],
        ),
        ("".join(f"{label} {i * 'the '}boat sank\n" for i in range(5) for label in "01"), [CLASSES]),
        (
            "word\tpos\tindices\tsentence1\tsentence2\tlabel\n"
            "bank\tN\t1-1\tThe bank paid .\tThe bank flooded .\tF\n"
            "bank\tN\t1-1\tThe bank paid .\tOur bank paid .\tT\n",
            [CLASSES],
        ),
        (
            "".join(f"{i}.json\t{i % 2 > 0}\tBoat {i} sank in the bay today\t{i}\n" for i in range(6)),
            [CLASSES],
        ),
        (
            "#begin document (a); part 000\na 0 0 Ann - - - - - - - (1)\n#end document\n",
            ["coref", "srl", "ner"],
        ),
        ("571001,racism\n571002,none\n571003,none\n571004,sexism\n", []),
        ("genre\tscore\tsentence1\n" + "".join(f"news\t{i}.5\tBoat {i} sank today\n" for i in range(9)), []),
        ('{"id": 1, "text": "Boats sank."}\n{"id": 2, "text": "It rained."}\n', ["ner"]),
        ("the\nof\nboat\nsank\n", []),
        ('{"sentence": "It rained .", "predicates": [1]}\n', ["ner"]),
        ("BOS fly from bonn to oslo EOS\tO O O B-from O\nBOS show all boats EOS\tO O B-thing\n", []),
    ],
)
def test_findings_are_ranked_by_evidence(capsys, tmp_path, content, tasks):
    (tmp_path / "a").write_text(content)
    if not tasks:
        error_of(ConfigurationError, inspected, capsys, tmp_path / "a")
        return
    found = inspected(capsys, tmp_path / "a")
    assert [found["task"], *(each["task"] for each in found["also"])] == tasks


@pytest.mark.parametrize(
    ("name", "content", "task", "values"),
    [
        ("a", '[["Ann runs to Rome.", [[0, 3, "PER"], [12, 16, "LOC"]]]]\n', None, ()),
        ("a", "".join(f"word{number} {number}\n" for number in range(300)), None, ()),
        ("a", "genre\tsentence1\tsentence2\tscore\nnews\tA plane lands.\tA bird lands.\t1.5\n", None, ()),
        ("a", '{"tokens": ["Ann", "runs"], "ner_tags": [1, 0]}\n', None, (", line 1", "tag_names")),
        ("a", "A plain text .\n", "sst", (", line 1",)),
        ("a.csv", "code,label\nx1,pos\nx2,neg\nx3,neg\n", "classification", ("'label'",)),
        ("a.csv", "text,label\nfine,pos\nslow,neg\n", "snli", ("'sentence1'",)),
        ("a.json", '{"data": [{"passage": "Ann runs."}]}\n', "squad", (", line 1", "'context'")),
        ("a.csv", "text,label\na fine trip,spam\na dull trip,spam\n", None, ("'label'", "'spam'")),
        (
            "a",
            '{"text": "a trip", "label": "x"}\n{"text": "two days", "label": "x"}\n',
            None,
            ("'label'", "'x'"),
        ),
        ("a", '{"text": "a trip", "score": 0.5}\n{"text": "two days", "score": 0.75}\n', None, ("'score'",)),
        ("a", '{"text": "Ann ran.", "entities": {"PER": ["Ann"]}}\n', None, (", line 1", "8 characters")),
        ("a.csv", "text,label\nfine,pos\nslow,neg\n", "ner", ("a table", "text, label", "elmo classify")),
        ("a", "Ann B-PER\nruns O\n\nBob B-PER\n", CLASSES, ("columns", "it is ner", "elmo tag")),
        ("a", "A plain text of a day .\n", "ner", ("lines of text", "'A plain", "a biLM")),
    ],
)
def test_data_that_are_refused(tmp_path, name, content, task, values):
    (tmp_path / name).write_text(content)
    message = error_of(ConfigurationError, Inspect(path=str(tmp_path / name), task=task, json=False).run)
    assert message.startswith(str(tmp_path / name))
    assert mentions(message, *values)


@pytest.mark.parametrize(
    ("content", "task", "labels", "odd"),
    [
        ("text,label\nfine,pos\nslow, dull,neg\nnot so fine,neg\nwell done,pos\n", CLASSES, 3, "line 3"),
        ("text,label\nfine,pos\na dull film indeed,\nnot so fine,neg\nwell done,pos\n", CLASSES, 3, "line 3"),
        ("text\tlabel\na fine\n film\tpos\nnot so\tneg\nwell\tpos\nOh no\tneg\n", CLASSES, 4, "line 2"),
        ("".join(f"{i % 2} it is number {i}\n" for i in range(24)) + "0 \n", CLASSES, 24, "line 25"),
        (
            "text,label\n" + "".join(f"it is {i},{'Pp'[i % 2]}aid\nno {i},due\n" for i in range(9)),
            CLASSES,
            18,
            "paid",
        ),
        ("Ann\tB-PER\nin\tO\nRome\tB-LOC,B-ORG\n\nBob\tB-PER\n\nAl\tB-PER\n", "ner", 2, "line 3"),
        ("<HEAD>\t\n\t\nAnn\tB-PER\nLee\tI-PER\n\nBob\tB-PER\n", "ner", 2, "line 1"),
    ],
)
def test_odd_rows_are_listed(capsys, tmp_path, content, task, labels, odd):
    (tmp_path / "a").write_text(content)
    found = inspected(capsys, tmp_path / "a")
    assert (found["task"], sum(found["labels"].values())) == (task, labels)
    assert mentions(" ".join(found["warnings"]), odd)
    assert found["dataset_reader"].get("skip_bad", False) == found["warnings"][0].startswith("left out")
    Inspect(path=str(tmp_path / "a"), task=None, json=False).run()
    is_left_out = found["warnings"][0].startswith("left out")
    assert ("--skip-bad" in capsys.readouterr().out.splitlines()[-1]) == is_left_out


PARSES = "gold_label\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\n" + "".join(
    f"{label}\t(ROOT (S Ann runs.))\t(ROOT (S It rains.))\tAnn runs home.\tIt rains here.\n"
    for label in ("neutral", "-", "entailment", "neutral")
)


def lines(first, second, third, *values):
    """Returns JSON Lines of records with these columns, of which the last two have the texts."""
    return "".join(
        json.dumps({first: value, second: f"Does Ann run {i}?", third: f"Ann runs {i} miles."}) + "\n"
        for i, value in enumerate(values)
    )


@pytest.mark.parametrize(
    ("content", "columns", "labels"),
    [
        (PARSES, ["sentence1", "sentence2"], {"neutral": 2, "entailment": 1}),
        (lines("label", "sentence", "question", "a", "b", "a"), ["question", "sentence"], {"a": 2, "b": 1}),
        (
            lines("answer", "question", "passage", True, False, True),
            ["question", "passage"],
            {"true": 2, "false": 1},
        ),
    ],
)
def test_pairs_by_their_names(capsys, tmp_path, content, columns, labels):
    (tmp_path / "a").write_text(content)
    found = inspected(capsys, tmp_path / "a", "classification")
    assert [found["dataset_reader"][f"sentence{number}"] for number in (1, 2)] == columns
    assert found["columns"]["texts"] == columns
    assert found["labels"] == labels
    assert not found["columns"]["not read"]
    assert ("1 records with the label" in found["notes"][0]) == (content == PARSES)


def test_numbers_of_classes_of_pairs(tmp_path):
    """They are no entailment by themselves: MRPC has them, too."""
    path = tmp_path / "rte.jsonl"
    path.write_text(lines("label", "sentence1", "sentence2", 1, 0, 1))
    message = error_of(ConfigurationError, Inspect(path=str(path), task="snli", json=False).run)
    assert mentions(message, "0, 1", "'label'")
    keys = json.loads(message.partition("for RTE ")[2].rstrip(")"))
    (instance, *_) = SnliReader(**keys).read(str(path))
    assert instance["label"].label == "not_entailment"


def test_a_text_that_is_not_read(capsys, tmp_path):
    (tmp_path / "a").write_text(lines("label", "title", "text", "a", "b", "a"))
    columns = {"texts": ["text"], "label": ["label"], "not read": ["title"]}
    assert inspected(capsys, tmp_path / "a")["columns"] == columns
    Inspect(path=str(tmp_path / "a"), task=None, json=False).run()
    assert "texts: text; label: label; not read: title" in capsys.readouterr().out


def test_entities_of_a_text_without_blanks(capsys, tmp_path):
    record = {"text": "叶老桂在北京", "label": {"name": {"叶老桂": [[0, 2]]}, "address": {"北京": [[4, 5]]}}}
    (tmp_path / "a").write_text(json.dumps(record))
    found = inspected(capsys, tmp_path / "a")
    assert (found["task"], found["tokens"], found["warnings"]) == ("ner", 6, [])
    assert found["dataset_reader"]["tokenizer"] == "characters"
    tokens = [{"start": start, "end": end} for start, end in ((0, 3), (3, 4), (4, 6))]
    (tmp_path / "a").write_text(json.dumps(record | {"tokens": tokens}))
    found = inspected(capsys, tmp_path / "a")
    assert (found["tokens"], found["dataset_reader"]) == (3, {"type": "elmo_ner"})


@pytest.mark.parametrize(
    ("rows", "odd"),
    [
        (["a day,x", "a night,y", "a day,y", "a day,x", "a week,x"], ["1 texts", "'a day'", "2 of the 5"]),
        ([f"a day by the sea {i},c{i}" for i in range(6)], ["each class has one record"]),
        ([f"a day by the sea {i},c{i % 2}" for i in range(6)], []),
    ],
)
def test_texts_that_recur_are_odd(capsys, tmp_path, rows, odd):
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"{row}\n" for row in rows))
    warnings = inspected(capsys, tmp_path / "a.csv")["warnings"]
    assert mentions(" ".join(warnings), *odd)
    assert bool(warnings) == bool(odd)


def test_sentences_with_several_tags_are_odd(capsys, tmp_path):
    (tmp_path / "a").write_text("Ann\tB-PER\nleft\tO\n\nBob\tB-PER\n\nAnn\tB-ORG\nleft\tO\n")
    assert mentions(" ".join(inspected(capsys, tmp_path / "a")["warnings"]), "1 texts", "'Ann left'")


@pytest.mark.parametrize(
    ("path", "verb", "columns"),
    [
        ("classification/agnews/train.csv", "classify", " --label column1 --text column3"),
        (
            "classification/mrpc/train.txt",
            "classify",
            " --label Quality --text '#1 String' --text '#2 String'",
        ),
        ("ner/train.conll", "tag", " --label column4 --text column1"),
        ("coref/train.conll", "tag", ""),
        ("snli/train.jsonl", "classify", " --label gold_label --text sentence1 --text sentence2"),
    ],
)
def test_the_commands_name_the_columns_and_read_the_data_so(capsys, path, verb, columns):
    path = FIXTURES / path
    Inspect(path=str(path), task=None, json=False).run()
    run = "ner" if verb == "tag" else CLASSES
    command = f"allennlp elmo {verb} {path} -o runs/{run}{columns}\n"
    assert command in capsys.readouterr().out.replace("also possible: ", "")
    if columns:
        words = shlex.split(command)
        label, *texts = (words[i + 1] for i, word in enumerate(words) if word in ("--label", "--text"))
        blocks = []
        for options in ({}, {"label": label, "text": texts}):
            Inspect(path=str(path), task=run, json=True, **options).run()
            blocks.append(json.loads(capsys.readouterr().out)["dataset_reader"])
        assert blocks[0] == blocks[1]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"text": {"0": "A day."}, "label": {"0": "x"}}, ("column, text, label", "orient='records'")),
        ({"train": [{"text": "A day.", "label": "x"}], "test": []}, ("train, test", "file of their own")),
        ({"train": [["A day.", "x"]]}, ("train", "file of their own")),
        ({"pos": ["A day.", "So."], "neg": ["No."]}, ("list of texts", "pos, neg")),
        ({"A day at the sea": "x", "So it was": "y"}, ("texts as keys", "A day at")),
    ],
)
def test_json_without_a_record_for_each_text(tmp_path, value, told):
    (tmp_path / "a").write_text(json.dumps(value))
    for task in (None, CLASSES):
        assert mentions(error_of(InputError, Inspect(path=str(tmp_path / "a"), task=task).run), *told)


def test_splits_that_are_read_together_are_odd(capsys, tmp_path):
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text("text,label\na day,x\nfine,y\nso,x\n")
    warnings = inspected(capsys, tmp_path)["warnings"]
    assert mentions(warnings[0], "test, train", f"{tmp_path}/train.csv as TRAIN")
    (tmp_path / "train.csv").write_text("text,label,part\na day,x,train\nfine,y,test\nso,x,train\n")
    assert mentions(inspected(capsys, tmp_path / "train.csv")["warnings"][0], "train, test", "'part'")


@pytest.mark.parametrize(("end", "told"), [("\n", "one sentence"), ("\n\n", "one token")])
def test_empty_lines_that_are_missing_or_too_many_are_odd(capsys, tmp_path, end, told):
    (tmp_path / "a").write_text("".join(f"w{i} {'OB'[i % 2]}{'-PER' * (i % 2)}{end}" for i in range(60)))
    assert any(told in each for each in inspected(capsys, tmp_path / "a", "ner")["warnings"])


TOKENS_OF_CSV = "Sentence #,Word,POS,Tag\ns1,Ann,NNP,B-PER\n,runs,VBZ,O\ns2,Bob,NNP,B-PER\n"


@pytest.mark.parametrize(
    ("content", "task", "label", "texts", "told"),
    [
        ("text,label\na day,x\nfine,y\n", None, "text", ["a", "b", "c"], ("a, b, c",)),
        ("text,label\na day,x\nfine,y\n", None, "label", ["text", "text"], ("'text' twice",)),
        ("text,label\na day,x\nfine,y\n", None, "label", ["label"], ("'label' twice",)),
        ("text,label\na day,x\nfine,y\n", None, "labels", [], ("'labels'", "text, label")),
        ("Ann N B-PER\nruns V O\n\nBob N B-PER\n", None, "column4", [], ("'column4'", "column1, column2")),
        ("Ann N B-PER\nruns V O\n\nBob N B-PER\n", "ner", None, ["words"], ("'words'", "column1")),
        (TOKENS_OF_CSV, "ner", "POS", [], ("'POS'", "Word, Tag")),
        (TOKENS_OF_CSV, "ner", "Tag", ["Word"], ()),
        ("__label__a A day .\n__label__b Fine .\n", None, "x", [], ("lines of text", "classification")),
        (
            '{"text": "Ann ran.", "label": [[0, 3, "PER"]]}\n',
            "ner",
            "text",
            [],
            ("JSON", "text, label", "ner"),
        ),
    ],
)
def test_columns_that_cannot_be_chosen(tmp_path, content, task, label, texts, told):
    (tmp_path / "a").write_text(content)
    run = Inspect(path=str(tmp_path / "a"), task=task, label=label, text=texts, json=True).run
    if told:
        assert mentions(error_of(InputError, run), *told)
    else:
        run()


def test_each_doubt_is_shown(capsys, tmp_path):
    words = ["boat", "sank", "in", "storm", "near", "town"]
    texts = (
        ",".join(" ".join(words[(i + j) % 6 :] + words[:5] + [str(i)]) for j in range(3)) for i in range(30)
    )
    rows = "".join(f"{text},{i % 2}a,{i % 3}b\n" for i, text in enumerate(texts))
    (tmp_path / "a.csv").write_text(f"one,two,three,kind,part\n{rows}")
    doubts = inspected(capsys, tmp_path / "a.csv")["doubt"]
    assert [doubt.split()[1] for doubt in doubts] == ["label", "text"]


@pytest.mark.parametrize(
    ("header", "rows", "shown"),
    [
        (
            "text,label",
            ["Oil falls on Friday,", "The team won it,"],
            ["no labels", "elmo:ner {} --text text\n"],
        ),
        (
            "one,two",
            ["Oil falls on Friday,The price is low", "The team won it,They lost it again"],
            ["no labels", "elmo:snli {} --text one --text two\n"],
        ),
        (
            "id,title,body",
            ["1,Oil falls,The price is low today", "2,A cup won,They did not lose it again"],
            ["no labels", "elmo:ner {} --text body\n"],
        ),
        (
            "one,two,three",
            [f"it is {i} o'clock here,it is {i} miles away,it was {i} days ago" for i in range(5)],
            ["in doubt: the text could be one (5 different: ", " or two (", "--text", "elmo:ner"],
        ),
    ],
)
def test_texts_without_labels(capsys, tmp_path, header, rows, shown):
    path = tmp_path / "a.csv"
    path.write_text("\n".join([header, *rows]))
    Inspect(path=str(path), task=None, json=False).run()
    assert mentions(capsys.readouterr().out, *(part.format(path) for part in shown))


def test_rejected_records_are_left_out(capsys, tmp_path):
    labels = {"accept": ["ham", "spam", "ham"], "reject": ["eggs"], "ignore": ["ham"]}
    records = (
        json.dumps({"text": f"a message {i}", "label": label, "answer": answer}) + "\n"
        for answer in labels
        for i, label in enumerate(labels[answer])
    )
    (tmp_path / "a").write_text("".join(records))
    found = inspected(capsys, tmp_path / "a", "classification")
    assert found["labels"] == {"ham": 2, "spam": 1}
    assert found["dataset_reader"]["label"] == "label"
    for decision in ("rejected", "ignored"):
        assert f"1 records that annotators have {decision} left out" in found["notes"][0]


def test_ignored_records_have_no_class(capsys, tmp_path):
    answers = ["accept", "reject", "ignore", "accept"]
    records = ({"text": f"a message {i}", "label": "X", "answer": answer} for i, answer in enumerate(answers))
    (tmp_path / "a").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = inspected(capsys, tmp_path / "a", "classification")
    assert found["labels"] == {"accept": 2, "reject": 1}
    assert found["dataset_reader"]["classes"] == ["accept", "reject"]
    assert "1 records that annotators have ignored left out" in found["notes"][0]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["rt/rt.neg", "rt/rt.pos", "README.1.0.txt"], ["neg", "pos"]),
        (["pos/0.txt", "neg/0.txt", "unsup/0.txt", "urls_pos.txt", "bow.feat"], ["neg", "pos"]),
        (["train/pos/0.txt", "train/neg/0.txt", "train/urls.txt", "test/pos/0.txt"], ["neg", "pos"]),
        (["tech/0.txt", "sport/0.txt", "README.TXT"], ["sport", "tech"]),
        (["doc1.ann", "doc1.txt", "doc2.ann", "doc2.txt"], None),
    ],
)
def test_folders_and_files_of_classes(capsys, tmp_path, names, labels):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("A text.\nMore.\n")
    if labels is None:
        error_of(ConfigurationError, inspected, capsys, tmp_path, "classification")
        return
    found = inspected(capsys, tmp_path)
    assert found["dataset_reader"]["classes"] == labels == sorted(found["labels"])
    left_out = sum(not any(label in name for label in labels) or "urls" in name for name in names)
    assert any(f"{left_out} files left out" in note for note in found["warnings"] + found["notes"])


BRAT = "T1\tPER 0 4\tVera\nT2\tLOC 10 14\tOslo\nR1\tin Arg1:T1 Arg2:T2\n"


@pytest.mark.parametrize(
    ("names_and_contents", "task", "labels", "odd"),
    [
        ({"txt.ann": BRAT, "txt.txt": "Vera left Oslo.\nBob came.\n"}, "ner", {"PER": 1, "LOC": 1}, ()),
        ({"a.ann": BRAT, "a.txt": "Vera left Rome.\nBob came.\nSo.\n"}, None, {}, ("line 1", "Oslo")),
        ({"x_text.txt": "a fine day\nbad\n", "x_labels.txt": "0\n1\n"}, CLASSES, {"0": 1, "1": 1}, ()),
        ({"x.text": "so\nno\n", "x.label": "0\n1\n", "map": "0 a\n"}, CLASSES, {"0": 1, "1": 1}, ("map",)),
        ({"p.obj": "It is noon .\n", "p.subj": "a caf\xe9 we loved\n"}, CLASSES, {"obj": 1, "subj": 1}, ()),
    ],
)
def test_files_side_by_side(capsys, tmp_path, monkeypatch, names_and_contents, task, labels, odd):
    for name, content in names_and_contents.items():
        (tmp_path / name).write_text(content, encoding="cp1252")
    monkeypatch.chdir(tmp_path)
    if task is None:
        assert mentions(error_of(ConfigurationError, inspected, capsys, "."), *odd)
        return
    found = inspected(capsys, ".")
    assert (found["task"], found["labels"]) == (task, labels)
    assert mentions(" ".join(found["warnings"]), *odd)


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("text,label\n这部电影很好看,好\n太无聊了不推荐,坏\n", 14),
        ("text,label\nหนังดี,a\nหนังแย่,b\n", 13),
        ("text,label\nGood one,pos\nBad one,neg\n", 4),
        ("__label__good 这部电影很好看\n__label__bad 太无聊了不推荐\n", 14),
    ],
)
def test_short_texts_and_texts_without_blanks(capsys, tmp_path, content, tokens):
    (tmp_path / "a").write_text(content)
    found = inspected(capsys, tmp_path / "a", "classification")
    assert found["tokens"] == tokens
    assert found["dataset_reader"].get("tokenizer") == ("characters" if tokens > 10 else None)


def test_a_misfit_says_how_to_look(allennlp, tmp_path):
    path = tmp_path / "a b.txt"
    path.write_text("A plain text .\n")
    overrides = json.dumps({"train_data_path": str(path)})
    config = bundled("training_configs/sst.jsonnet").resolve()
    shown = allennlp("train", config, "-s", tmp_path / "run", "-o", overrides, status=1)
    assert shown.rstrip().endswith(f"try `allennlp elmo inspect '{path}'`")
