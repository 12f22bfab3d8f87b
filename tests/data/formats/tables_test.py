"""What `inspect` finds in tables: the columns of texts and labels, by what they hold."""

import gzip
import json
from typing import Any
from zipfile import ZipFile

import pytest

from elmo_tasks.commands.inspect import find_readings, read_best
from elmo_tasks.data.formats.sample import sample_of
from elmo_tasks.data.input_files import InputError
from tests.errors import error_of, mentions

TEXTS = [
    "the boat came at last to the port",
    "why is it so late again today",
    "nobody saw the old captain go home",
    "rain fell on the town all week",
]


def rows(*columns: list[str], header: str = "", mark: str = ",", times: int = 2) -> str:
    """Returns a table of these columns, whose rows come several times."""
    lines = [mark.join(cells) for cells in zip(*columns, strict=True)]
    return "".join(f"{line}\n" for line in [*([header] if header else []), *lines * times])


def read(path: Any) -> Any:
    sample = sample_of(str(path))
    return read_best(str(path), find_readings(sample), sample)[0]


KINDS = ["joy", "anger", "joy", "anger"]
SHORT = ['"thanks, bye"', "thanks", *TEXTS[:2]]
PAIR = [f"{text} ." for text in reversed(TEXTS)]


@pytest.mark.parametrize(
    ("content", "texts", "label"),
    [
        (rows(SHORT, KINDS, header="text,emotion", times=4), ["text"], "emotion"),
        (rows(SHORT, KINDS, times=4), ["column1"], "column2"),
        (
            rows(TEXTS, ["hate", "none", "hate", "none"], header="comments\thate", mark="\t"),
            ["comments"],
            "hate",
        ),
        (rows(TEXTS, PAIR, KINDS, header="qtext,atext,label"), ["qtext", "atext"], "label"),
        (rows(TEXTS, PAIR, KINDS, header="sent_more,sent_less,kind"), ["sent_more", "sent_less"], "kind"),
        (rows(KINDS, TEXTS, PAIR, header="label,sent1,sent2"), ["sent1", "sent2"], "label"),
        (rows(TEXTS, PAIR, KINDS, header="text_en,text_pt,label"), ["text_en"], "label"),
        (
            rows(KINDS, TEXTS, ["DT NN VBD IN JJ TO DT NN"] * 4, header="label,sentence,pos"),
            ["sentence"],
            "label",
        ),
        (rows(KINDS, [f"'{text}; so'" for text in TEXTS], mark=";"), ["column2"], "column1"),
        (rows(TEXTS, ["2020-03-01", "2020-03-02"] * 2, KINDS, header="text,day,mood"), ["text"], "mood"),
        (rows(KINDS, ["从北京到上海的车很慢", "怎么做鱼汤才好呢"] * 2, mark="\t"), ["column2"], "column1"),
        ("sep=;\n" + rows(KINDS, TEXTS, header="Klasse;Text", mark=";"), ["Text"], "Klasse"),
        (rows(TEXTS, KINDS, header="Tweet,Mood").replace("\n", "\n\n"), ["Tweet"], "Mood"),
        (rows(KINDS, TEXTS, mark="\t").replace("anger", "\nanger", 1), ["column2"], "column1"),
        (rows(TEXTS, KINDS, ["7", "8", "9", "7"], header="text,label,2020"), ["text"], "label"),
        (rows(["0", "1"] * 2, KINDS, TEXTS, header="label_id,label_name,text"), ["text"], "label_name"),
        (
            rows(["0", "1"] * 2, ["us", "uk", "uk", "us"], TEXTS, header="target,place,text"),
            ["text"],
            "target",
        ),
        (
            rows(["a,", "b,"] * 2, TEXTS, header="mood,mood_gold,text", times=3)
            + rows(["a,joy", "b,grief"], TEXTS[:2]),
            ["text"],
            "mood",
        ),
    ],
)
def test_columns(tmp_path, content, texts, label):
    (tmp_path / "a").write_text(content)
    found = read(tmp_path / "a")
    assert (found.task, found.columns["texts"], found.columns["label"]) == ("classification", texts, [label])
    assert found.doubt == []


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (
            rows(["m", "f"] * 2, TEXTS, ["joy", "joy", "anger", "fear"], header="gender,text,emotion"),
            ["--label"],
        ),
        (
            rows(["ship", "sea"] * 2, TEXTS, ["for", "no", "no", "for"], header="topic,text,stance"),
            ["topic ("],
        ),
        (rows(TEXTS, PAIR, PAIR[2:] + PAIR[:2], KINDS, header="one,two,three,label"), ["--text"]),
    ],
)
def test_doubts(tmp_path, content, options):
    (tmp_path / "a").write_text(content)
    assert mentions(" ".join(read(tmp_path / "a").doubt), *options)


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_classes_behind_the_head(tmp_path, sort, packed):
    """A file that is sorted by class has one class in its first lines."""
    lines = [f"{label}\tit was the boat {number} again" for number in range(1500) for label in ("a", "b")]
    content = "".join(f"{line}\n" for line in (sorted(lines) if sort else lines)).encode()
    (tmp_path / "a").write_bytes(gzip.compress(content) if packed else content)
    assert read(tmp_path / "a").labels == {"a": 1500, "b": 1500}


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (
            "tokens,ner_tags\n\"['Ann', 'left']\",\"['B-PER', 'O']\"\n\"['It' 'rained']\",\"['O' 'O']\"\n",
            {"PER": 1},
        ),
        (
            "sentence_id,words,labels\n1,\"['Ann', 'left']\",\"['B-PER', 'O']\"\n2,\"['It']\",\"['O']\"\n",
            {"PER": 1},
        ),
        ("Sentence,Word,Tag\n0,李,B-姓名\n,走,O\n1,北京,B-地址\n,下雨,O\n", {"姓名": 1, "地址": 1}),
        ("text,labels\nAnn Lee left,B-PER I-PER O\nIt rained,O O\n", {"PER": 1}),
        ("\tone B-COUNT\n\tday o\n\n\tsix B-COUNT\n\tmen o\n", {"COUNT": 2}),
        ("Ann PER\nleft 0\n\nOslo LOC\nsleeps 0\n", {"PER": 1, "LOC": 1}),
        ("Ann\tB-PER\nleft\t-\n\nBob\tB-PER\nsits\t-\n", {"PER": 2}),
        ("0\tAnn\tB-PER\n1\tleft\tO\n\n0\t-DOCSTART-\tO\n\n0\tOslo\tB-LOC\n", {"PER": 1, "LOC": 1}),
        ("Ann|B-PER\nleft|O\n\nOslo|B-LOC\nsleeps|O\n", {"PER": 1, "LOC": 1}),
    ],
)
def test_entities(tmp_path, content, labels):
    (tmp_path / "a").write_text(content)
    found = read(tmp_path / "a")
    assert (found.task, found.labels) == ("ner", labels)
    assert found.records == (3 if "DOCSTART" in content else 2) - ("DOCSTART" in content)


@pytest.mark.parametrize(
    ("names", "task"),
    [
        (["pos.txt", "neg.txt"], "classification"),
        (["rt-polarity.pos", "rt-polarity.neg"], "classification"),
        (["0/a.txt", "1/a.txt"], "classification"),
        (["4stars.txt", "few_stars.txt"], "text for a biLM"),
        (["chapter1.txt", "chapter2.txt"], "text for a biLM"),
        (["a.txt", "b.txt"], "text for a biLM"),
        (["news.en-00001-of-00100", "news.en-00002-of-00100"], "text for a biLM"),
    ],
)
def test_folders(tmp_path, names, task):
    """Files that differ in a number or a letter alone are no classes, and words are."""
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(f"{text}\n" for text in TEXTS))
    assert read(tmp_path).task == task


def test_files_of_other_columns(tmp_path):
    """Of an archive of Kaggle, the path of the one file with texts and labels works."""
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("sample.csv", "id,label\n1,joy\n2,joy\n")
        archive.writestr("train.csv", rows(["1", "2", "3", "4"], TEXTS, KINDS, header="id,text,label"))
    message = error_of(InputError, read, tmp_path / "a.zip")
    path, _, problem = message.partition(": ")
    assert "sample.csv" in problem
    assert read(path).labels == {"joy": 4, "anger": 4}


def test_several_encodings(tmp_path):
    for name, encoding in [("a.csv", "utf-8"), ("b.csv", "cp1252")]:
        (tmp_path / name).write_text("text,label\nSchöne Grüße,a\nfür später,b\n", encoding)
    assert mentions(error_of(InputError, read, tmp_path), "a.csv is utf-8", "b.csv is cp1252", "iconv")


@pytest.mark.parametrize(
    ("words", "task"),
    [
        (["NUM:year", "LOC"], "classification"),
        (["0", "1"], "classification"),
        (["A:", "B:"], "text for a biLM"),
        (["I", "A"], "text for a biLM"),
        (["What", "How"], "text for a biLM"),
    ],
)
def test_first_words(tmp_path, words, task):
    (tmp_path / "a").write_text(rows(words * 2, TEXTS, mark=" "))
    assert read(tmp_path / "a").task == task
    tasks = {each.task for each in find_readings(sample_of(str(tmp_path / "a")))}
    assert ("classification" in tasks) is (words[0] != "What")


SEVERAL = [["a", "c"], ["b"], ["a"], ["b", "c"]]


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (rows(TEXTS, ["a,c", "b", "a", "b,c"], mark="\t", times=4), {"several_labels": ","}),
        (rows(TEXTS, ["a | c", "b", "a", "b | c"], header="text,tags", times=4), {"several_labels": "|"}),
        (
            "".join(
                json.dumps({"text": text, "tags": labels}) + "\n"
                for text, labels in zip(TEXTS, SEVERAL, strict=True)
            )
            * 4,
            {"several_labels": True},
        ),
        (
            rows(
                TEXTS, *[[str(int(name in each)) for each in SEVERAL] for name in "abc"], header="text,a,b,c"
            ),
            {"label": ["a", "b", "c"]},
        ),
        (
            "".join(
                f"{' '.join(f'__label__{name}' for name in labels)} {text}\n"
                for text, labels in zip(TEXTS, SEVERAL, strict=True)
            ),
            {"several_labels": True},
        ),
    ],
)
def test_several_labels(tmp_path, content, keys):
    (tmp_path / "a").write_text(content)
    found = read(tmp_path / "a")
    times = found.records // 4
    assert (found.task, found.labels) == ("classification", dict.fromkeys("abc", 2 * times))
    assert found.dataset_reader.items() >= {"classes": ["a", "b", "c"], **keys}.items()
    assert not [each for each in found.warnings if "different labels" in each]


def test_lists_of_one_label_and_of_none(tmp_path):
    lists = [[["a"], ["b"]] * 20, [["a"], ["b"], [], ["b"]] * 10]
    for labels, several in zip(lists, (None, True), strict=True):
        lines = (
            json.dumps({"text": f"We saw boat {i}", "label": label}) + "\n" for i, label in enumerate(labels)
        )
        (tmp_path / "a").write_text("".join(lines))
        found = read(tmp_path / "a")
        assert (found.records, found.dataset_reader.get("several_labels")) == (40, several)
        assert found.dataset_reader["classes"] == ["a", "b"]


def test_texts_without_labels(tmp_path):
    (tmp_path / "a.csv").write_text('comment\n"The plan is fine, I think."\nIt rained.\nWe will see.\n')
    found = read(tmp_path / "a.csv")
    assert (found.task, found.records) == ("texts without labels", 3)
    assert found.command.endswith("--text comment")


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (rows(TEXTS, PAIR, ["0.1", "2.5", "0.7", "1.2"], header="a,b,score"), ["'score'", "scores"]),
        (rows(["10_1", "10_2", "11_1", "11_2"], KINDS, header="file_id,label"), ["'label'"]),
        (rows(TEXTS, ["spam"] * 4, header="text,label"), ["one class, 'spam'"]),
        ("text,label\n", ["no rows"]),
        (
            rows(
                [f"{text} {i}" for i in range(152) for text in TEXTS],
                [str(i) for i in range(304)] * 2,
                header="text,class",
            ),
            ["more than 200 classes", "--label class"],
        ),
        (rows(TEXTS, ["['a', 'b']", "['c']"] * 2, header="text\tlabel", mark="\t"), ["'label' hold lists"]),
        (rows(TEXTS, KINDS, KINDS, header="text,label,label"), ["line 1", "'label' twice"]),
        (
            rows(["1", "2", "3", "4"], TEXTS, KINDS, header="text\tlabel", mark="\t"),
            ["line 2", "R's row names"],
        ),
        (rows([f"so, {text}" for text in TEXTS], KINDS, header="text,label"), ["line 2", "need quotes"]),
        ("# of 2020\n" + rows(TEXTS, KINDS, header="text,label"), ["line 1", "comment"]),
        (
            rows([f'"{text}' for text in ["text", *TEXTS]], [f'{kind}"' for kind in ["label", *KINDS]]),
            ["whole rows"],
        ),
        (rows(["it", "rained", "in", "Oslo"], ["O", "O", "O", "B-LOC"], header="word,tag"), ["sentence"]),
    ],
)
def test_refusals(tmp_path, content, values):
    (tmp_path / "a").write_text(content)
    message = error_of(InputError, read, tmp_path / "a")
    assert mentions(message, *values)
    assert "chunk" not in message


def test_records_of_a_list_that_is_sorted_by_class(tmp_path):
    records = [{"text": f"it was boat {number}", "label": label} for label in "ab" for number in range(900)]
    (tmp_path / "a").write_text(json.dumps(records))
    assert read(tmp_path / "a").labels == {"a": 900, "b": 900}


def test_a_damaged_line_far_from_the_head(tmp_path):
    """The reader says where it is."""
    lines = [
        json.dumps({"text": f"it was boat {number}", "label": "ab"[number % 2]}) for number in range(3000)
    ]
    lines[1500:2500] = ['{"text": x}'] * 1000
    (tmp_path / "a").write_text("\n".join(lines))
    found = read(tmp_path / "a")
    assert (found.records, found.labels) == (2000, {"a": 1000, "b": 1000})
    assert any("line 1501" in warning for warning in found.warnings)
