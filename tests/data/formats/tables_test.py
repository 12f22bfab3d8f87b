"""What `inspect` finds in tables: the columns of texts and labels, by what they hold."""

import gzip
import json
from typing import Any

import pytest

from elmo_tasks.commands.inspect import CONFIGS, find_readings, read_best
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
    readings, problem = find_readings(sample, list(CONFIGS))
    return read_best(str(path), sorted(readings, key=lambda reading: -reading.fit), sample, problem)[0]


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
