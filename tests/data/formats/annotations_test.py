"""Records of annotation tools: the entities that each shape holds, and offsets that contradict the text."""

import json

import pytest

from elmo_tasks.data.formats import Fit
from elmo_tasks.data.formats.annotations import fit_annotations
from elmo_tasks.data.formats.sample import sample_of
from elmo_tasks.data.input_files import InputError
from elmo_tasks.ner.reader import NerReader
from tests.errors import error_of, mentions
from tests.records import entities, json_lines, read_with

TEXT = "Ann Lee left Oslo"
WORDS = TEXT.split()
TOKENS = [{"id": 0, "start": 0, "end": 3}, {"id": 1, "start": 4, "end": 7}, {"id": 2, "start": 13, "end": 17}]
RAIN = {"text": "Rain fell"}
ANN, OSLO = "Ann Lee:PER", "Oslo:LOC"
DOCCANO = [
    {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 7},
    {"id": 2, "label": "LOC", "start_offset": 13, "end_offset": 17},
]
SPANS = [{"start": 0, "end": 7, "label": "PER"}, {"start": 13, "end": 17, "label": "LOC"}]
DATATURKS = [
    {"label": ["PER"], "points": [{"start": 0, "end": 6, "text": "Ann Lee"}]},
    {"label": ["LOC"], "points": [{"start": 13, "end": 16, "text": "Oslo"}]},
    {"label": [], "points": [{"start": 8, "end": 11, "text": "left"}]},
]
RASA = [
    {"start": 0, "end": 7, "entity": "PER", "value": "A. Lee"},
    {"start": 13, "end": 17, "entity": "LOC", "value": "Oslo"},
]


def label_studio(*regions, **annotation):
    results = [{"value": {"start": a, "end": b, "text": TEXT[a:b], "labels": [x]}} for a, b, x in regions]
    other = {"value": {"choices": ["news"]}, "from_name": "topic"}
    return annotation | {"result": [*results, other, {"type": "relation", "from_id": "1"}]}


PER, LOC = (0, 7, "PER"), (13, 17, "LOC")
SHAPES = [
    ([RAIN | {"label": []}, {"text": TEXT, "label": [PER, LOC]}], [ANN, OSLO]),
    ([{"text": TEXT, "entities": DOCCANO, "relations": []}], [ANN, OSLO]),
    ([{"text": TEXT, "annotations": [each | {"label": 7} for each in DOCCANO]}], ["Ann Lee:7", "Oslo:7"]),
    ([RAIN | {"entities": []}, {"text": TEXT, "entities": SPANS}], [ANN, OSLO]),
    ([{"text": TEXT, "ents": SPANS, "tokens": TOKENS}], [ANN, OSLO]),
    ([{"text": TEXT, "spans": SPANS, "answer": "accept"}, RAIN | {"answer": "accept"}], [ANN, OSLO]),
    ([{"content": TEXT, "annotations": [{"tag": "LOC", "start": 13, "end": 17, "value": "Oslo"}]}], [OSLO]),
    ([{"content": RAIN["text"], "annotation": None, "extras": None}], []),
    ([{"content": TEXT, "annotation": DATATURKS, "extras": None}], [ANN, OSLO]),
    ([{"text": TEXT, "tokens": WORDS, "annotation": [["PER", 0, 7], ["LOC", 13, 17]]}], [ANN, OSLO]),
    ([{"tokenized_text": WORDS, "ner": [[0, 1, "PER"], [3, 3, "LOC"]]}], [ANN, OSLO]),
    ([{"tokens": WORDS, "entities": [{"type": "PER", "start": 0, "end": 2}]}], [ANN]),
    ([{"text": TEXT, "label": {"PER": {"Ann Lee": [[0, 6]]}, "LOC": {"Oslo": [[13, 16]]}}}], [ANN, OSLO]),
    (
        [{"doc_key": "d", "sentences": [["Rain", "fell"], [], WORDS], "ner": [[], [], [[2, 3, "PER", 0.9]]]}],
        [ANN],
    ),
    (
        [
            {"data": {"text": TEXT}, "annotations": [label_studio(PER, LOC)]},
            {"data": {"review": TEXT, "n": 1}, "annotations": [label_studio(LOC)]},
            {"data": RAIN, "annotations": [label_studio(), label_studio(PER, was_cancelled=True)]},
            {"data": RAIN, "annotations": [label_studio(PER, was_cancelled=True)]},
        ],
        [ANN, OSLO, OSLO],
    ),
    (
        {"rasa_nlu_data": {"common_examples": [RAIN | {"entities": []}, {"text": TEXT, "entities": RASA}]}},
        [ANN, OSLO],
    ),
    ({"examples": [{"text": TEXT, "entities": SPANS}]}, [ANN, OSLO]),
    ({"rows": [{"row_idx": 0, "row": {"text": TEXT, "entities": SPANS}}]}, [ANN, OSLO]),
]


def read(path, content, **parameters):
    text = json_lines(*content) if isinstance(content, list) else json.dumps(content)
    return [
        each for instance in read_with(NerReader, path, text, **parameters) for each in entities(instance)
    ]


@pytest.mark.parametrize(("content", "expected"), SHAPES)
def test_shapes(tmp_path, caplog, content, expected):
    assert read(tmp_path / "a", content) == expected
    assert not caplog.records
    is_certain = fit_annotations(sample_of(str(tmp_path / "a")), "json") is Fit.CERTAIN
    assert is_certain == bool(expected)


@pytest.mark.parametrize(
    "content",
    [
        [{"text": TEXT, "labels": []}, {"text": TEXT, "labels": ["news", "sport"]}],
        [{"text": TEXT, "annotations": [{"label": "news", "annotator": 7}]}],
        [{"text": TEXT, "label": "news"}],
        [{"text": TEXT, "label": 1}],
    ],
)
def test_classes_of_texts_are_no_entities(tmp_path, content):
    (tmp_path / "a").write_text(json_lines(*content))
    assert fit_annotations(sample_of(str(tmp_path / "a")), "json") is Fit.POSSIBLE


EMOJI = "Hi 🚀😀😀 Ann Lee is in Oslo and in Oslo"
"""With `Ann Lee` at 7, and at 10 in units of UTF-16."""
IN_UTF16 = {"start": 10, "end": 17, "text": "Ann Lee"}
FAR = "x " * 40 + EMOJI


@pytest.mark.parametrize(
    ("record", "expected", "shown"),
    [
        ({"text": EMOJI, "label": [IN_UTF16 | {"labels": ["PER"]}]}, [ANN], ("at 7", "at 10")),
        ({"text": EMOJI, "spans": [IN_UTF16 | {"label": "PER"}]}, [ANN], ("at 7", "at 10")),
        (
            {"text": EMOJI, "spans": [{"start": 21, "end": 25, "type": "LOC", "name": "in Oslo"}]},
            ["in Oslo:LOC"],
            ("at 18", "at 21"),
        ),
        ({"text": FAR, "entities": [{"start": 104, "end": 108, "tag": "LOC", "value": "Oslo"}]}, [OSLO], ()),
        (
            {"content": EMOJI, "annotation": [{"label": "PER", "points": [IN_UTF16]}]},
            [ANN],
            ("at 7", "at 10"),
        ),
        (
            {"text": EMOJI, "entities": [{"start": 9, "end": 16, "entity": "PER", "value": "Ann Lee"}]},
            [ANN],
            ("at 9",),
        ),
        ({"text": EMOJI, "label": {"PER": {"Ann Lee": [[10, 16]]}}}, [ANN], ("at 7", "at 10")),
        (
            {
                "data": {"text": EMOJI},
                "annotations": [{"result": [{"value": IN_UTF16 | {"labels": ["PER"]}}]}],
            },
            [ANN],
            (),
        ),
    ],
)
def test_spans_are_where_their_text_is(tmp_path, caplog, record, expected, shown):
    assert read(tmp_path / "a", [record]) == expected
    (warning,) = (each.getMessage() for each in caplog.records)
    assert mentions(warning, f"{tmp_path}/a, line 1: ", *shown, "offsets in this file: 1)")
    error_of(InputError, read, tmp_path / "a", [record], strict=True)


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        ({"start": 0, "end": 4, "text": "Oslo"}, ("'Oslo' (LOC)", "0 to 4", "'x x '")),
        ({"start": 111, "end": 114, "text": "Rome"}, ("'Rome' (LOC)", "111 to 114")),
        ({"start": 200, "end": 204}, ("200", "entities")),
    ],
)
def test_spans_that_are_nowhere(tmp_path, span, shown):
    message = error_of(InputError, read, tmp_path / "a", [{"text": FAR, "spans": [span | {"label": "LOC"}]}])
    assert mentions(message, f"{tmp_path}/a, line 1: ", *shown)


def test_records_that_annotators_have_left_out_are_counted(tmp_path, caplog):
    caplog.set_level("INFO")
    answers = ["accept", "reject", "ignore", "ignore"]
    content = [{"text": TEXT, "spans": SPANS, "answer": answer} for answer in answers]
    assert read(tmp_path / "a", content) == [ANN, OSLO]
    assert "1 records that annotators have rejected left out" in caplog.text
    assert "2 records that annotators have ignored left out" in caplog.text


def test_spans_of_tokens_or_of_characters(tmp_path):
    """Beside a text and its tokens, the spans may count either."""
    span = {"start": 0, "end": 2, "type": "PER"}
    message = error_of(
        InputError, read, tmp_path / "a", [{"text": TEXT, "tokens": WORDS, "entities": [span]}]
    )
    assert mentions(message, '"entities"', "tokens 0 to 4")


def test_a_list_of_objects_that_is_not_read(tmp_path):
    message = error_of(InputError, read, tmp_path / "a", [{"text": TEXT, "named_entities": SPANS}])
    assert mentions(message, f"{tmp_path}/a, line 1: ", '"named_entities"')
