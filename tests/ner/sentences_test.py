"""The formats of files with entities, each by a few lines."""

import json
import logging
from functools import partial
from itertools import chain

import pytest
import spacy
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from spacy.tokens import DocBin

from elmo_tasks.data.formats.columns import find_columns
from elmo_tasks.data.formats.sample import sample_of
from elmo_tasks.data.input_files import InputError
from elmo_tasks.ner.reader import NerReader
from tests.errors import error_of, mentions
from tests.records import entities, json_lines, parquet, read_with

ANN = ("Ann Lee:PER", "Rome:LOC")
TWO = {"columns": ["word", "tag"]}
CONLL_2012 = """#begin document (nw/x); part 000
nw/x 0 0 Ann NNP * - - - - (PERSON* *
nw/x 0 1 Lee NNP * - - - - *) *
nw/x 0 2 saw VBD * see 01 1 - * (V*)
nw/x 0 3 Rome NNP * - - - - (GPE) *
nw/x 0 4 /. . * - - - - * *

#end document
"""
CONLLU = """# text = Ann Lee saw Rome
1\tAnn\tAnn\tPROPN\t_\t_\t3\tnsubj\t_\tname=B-PER
2\tLee\tLee\tPROPN\t_\t_\t1\tflat\t_\tSpaceAfter=No|name=I-PER
3-4\tsaw-it\t_\t_\t_\t_\t_\t_\t_\t_
3\tsaw\tsee\tVERB\t_\t_\t0\troot\t_\tname=O
4\tRome\tRome\tPROPN\t_\t_\t3\tobj\t_\tname=B-LOC
"""
GMB = '''Sentence #,Word,POS,Tag
Sentence: 1,Ann,NNP,B-PER
,Lee,NNP,I-PER
,"""",``,O
Sentence: 2,Rome,NNP,B-LOC
'''
TEXTS = [
    ("# id x O\nAnn NNP B-NP B-PER\nLee NNP I-NP I-PER\n# NN B-NP O\n", {}, "Ann Lee #", ANN[:1]),
    ("A x-y\nB x-y\nin O\nRome LOC\n", TWO, "A B in Rome", ["A B:x-y", "Rome:LOC"]),
    ("Ann (PER*\nLee *)\nin *\nRome (LOC)\n", TWO, "Ann Lee in Rome", ANN),
    ("Ann\nLee\n\n#\nRome\n", {}, "Ann Lee|# Rome", None),
    ("1 O\n2 Brasil\n", {"columns": ["id", "word", "tag"]}, "O Brasil", None),
    ("Word\tTag\nAnn\tPER\nin\tO\nRome\tLOC\n", TWO, "Ann in Rome", ["Ann:PER", "Rome:LOC"]),
    ("\nTOKEN NE-COARSE-LIT\n# language = fr\nAnn B-PER\nLee I-PER\n", TWO, "Ann Lee", ANN[:1]),
    (CONLL_2012, {}, "Ann Lee saw Rome .", ["Ann Lee:PERSON", "Rome:GPE"]),
    (CONLLU, {}, "Ann Lee saw Rome", ANN),
    (CONLLU.replace("name=", "NE="), {}, "Ann Lee saw Rome", ANN),
    (GMB, {}, 'Ann Lee "|Rome', ANN),
    ("sentence_id,words,labels\n0,Ann,B-PER\n0,Lee,I-PER\n1,Rome,B-LOC\n", {}, "Ann Lee|Rome", ANN),
    ("\nAnn|NNP|I-PER Lee|NNP|I-PER ||SYM|O Rome|NNP|I-LOC\n", {}, "Ann Lee | Rome", ANN),
]
TAGGED = (
    {"tokens": ["Ann", "Lee"], "ner_tags": ["B-PER", "I-PER"]},
    {"tokens": ["Rome"], "ner_tags": ["B-LOC"]},
)
PRODIGY = {
    "text": "Ann Lee",
    "tokens": [
        {"text": "Ann", "start": 0, "end": 3, "id": 0},
        {"text": "Lee", "start": 4, "end": 7, "id": 1},
    ],
    "spans": [{"start": 0, "end": 7, "label": "PER", "token_start": 0, "token_end": 1}],
    "answer": "accept",
}
SAW = "Ann Lee saw Rome."
PAIRS = ([SAW, {"entities": [[0, 8, "PER"], [12, 16, "LOC"]]}], ["no [[one", {"entities": []}])
PAIR_WORDS = "Ann Lee saw Rome .|no [ [ one"
BY_LABEL = {"text": SAW, "label": {"LOC": {"Rome": [[12, 15]]}, "PER": {"Ann Lee": [[0, 6]]}}}
SPERT = {"tokens": ["Ann", "Lee", "is"], "entities": [{"type": "PER", "start": 0, "end": 2}], "relations": []}
X = ["Ann:X"]
RECORDS = [
    (TAGGED, {}, "Ann Lee|Rome", ANN),
    ([{"words": ["Ann"], "tags": [1]}], {"tag_names": ["O", "B-PER"]}, "Ann", ["Ann:PER"]),
    ([{"tokens": ["Ann"]}], {}, "Ann", None),
    ([{"text": SAW, "label": [[12, 16, "LOC"], [0, 8, "PER"]]}], {}, "Ann Lee saw Rome .", ANN),
    ([{"text": "Ann", "entities": [{"start_offset": 0, "end_offset": 3, "label": "X"}]}], {}, "Ann", X),
    ([{"text": "Ann", "label": [{"start": 0, "end": 3, "labels": ["X"]}], "annotation_id": 1}], {}, "Ann", X),
    ([{"id": 7, "data": "Ann", "label": [[0, 3, "X"]]}], {}, "Ann", X),
    ([{"text": "no one", "label": []}], {}, "no one", []),
    ([{"text": "no one", "label": None}], {}, "no one", None),
    ([BY_LABEL], {}, "Ann Lee saw Rome .", ANN),
    ([SPERT, {"tokens": ["Rome"], "entities": []}], {}, "Ann Lee is|Rome", ANN[:1]),
    ([{"text": "안나는 로마"}], {"tokenizer": "characters"}, "안 나 는 로 마", None),
    ([PRODIGY, {"text": "Bob", "spans": [], "answer": "reject"}], {}, "Ann Lee", ANN[:1]),
]


read = partial(read_with, NerReader)


@pytest.mark.parametrize(
    ("content", "parameters", "words", "expected"),
    [
        *TEXTS,
        *((json_lines(*records), *others) for records, *others in RECORDS),
        (json.dumps(TAGGED), *RECORDS[0][1:]),
        (json.dumps(PAIRS), {}, PAIR_WORDS, ANN),
        (json.dumps(PAIRS, indent=1), {}, PAIR_WORDS, ANN),
        (json_lines(*PAIRS), {}, PAIR_WORDS, ANN),
        (json.dumps({"classes": ["PER", "LOC"], "annotations": PAIRS}), {}, PAIR_WORDS, ANN),
    ],
)
def test_shapes(tmp_path, caplog, content, parameters, words, expected):
    with caplog.at_level(logging.INFO):
        instances = read(tmp_path / "a", content, **parameters)
    assert "|".join(" ".join(each["metadata"].metadata.words) for each in instances) == words
    found = [entities(each) for each in instances]
    if expected is None:
        assert not any(found)
        assert f"{len(found)} sentences without tags" in caplog.text
    else:
        assert list(chain(*found)) == list(expected)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == (expected is None)


@pytest.mark.parametrize("tags", [[1, 2], ["B-PER", "I-PER"]])
def test_parquet(tmp_path, tags):
    names = {"feature": {"names": ["O", "B-PER", "I-PER"], "_type": "ClassLabel"}, "_type": "Sequence"}
    content = parquet({"id": "x", "tokens": ["Ann", "Lee"], "ner_tags": tags}, ner_tags=names)
    (instance,) = read(tmp_path / "a.parquet", content)
    assert entities(instance) == ["Ann Lee:PER"]
    assert instance["metadata"].metadata.ids == {"id": "x"}


@pytest.mark.parametrize("marked", [True, False])
def test_spacy(tmp_path, marked):
    language = spacy.blank("en")
    doc = language("Ann Lee\n\nruns. Rome burns.")
    doc.set_ents([doc.char_span(0, 7, "PER"), doc.char_span(15, 19, "LOC")])
    for token in doc if marked else ():
        token.is_sent_start = token.text in ("Ann", "Rome")
    DocBin(docs=[doc, language("No one")]).to_disk(tmp_path / "a.spacy")
    instances = list(NerReader().read(str(tmp_path / "a.spacy")))
    words = [each["metadata"].metadata.words for each in instances]
    first = [["Ann", "Lee", "runs", "."], ["Rome", "burns", "."]]
    assert words == [*(first if marked else [list(chain(*first))]), ["No", "one"]]
    assert [each for instance in instances for each in entities(instance)] == list(ANN)
    sentence = instances[1 if marked else 0]["metadata"].metadata
    assert [sentence.text[start:end] for start, end in sentence.offsets] == sentence.words
    (tmp_path / "b.spacy").write_bytes(b"x")
    message = error_of(InputError, list, NerReader().read(str(tmp_path / "b.spacy")))
    assert message.startswith(f"{tmp_path}/b.spacy: ")


def test_the_two_files_of_atis(tmp_path):
    (tmp_path / "seq.in").write_text("Ann Lee\nto Rome\n")
    (tmp_path / "label").write_text("x\ny\n")
    assert [entities(each) for each in NerReader().read(str(tmp_path / "seq.in"))] == [None, None]
    (tmp_path / "seq.out").write_text("B-PER I-PER\nO B-to.city_name\n")
    for path in (tmp_path, tmp_path / "seq.in"):
        instances = list(NerReader().read(str(path)))
        assert [entities(each) for each in instances] == [["Ann Lee:PER"], ["Rome:to.city_name"]]
    (tmp_path / "seq.out").write_text("B-PER I-PER\nO\n")
    message = error_of(InputError, list, NerReader().read(str(tmp_path)))
    assert message.startswith(f"{tmp_path}/seq.out, line 2: ")


WITHIN = {"text": "Ann Lees", "label": [[0, 7, "PER"]]}
OUTSIDE = {"tokens": ["x"], "tags": ["O"]}
NESTED = {"text": "New York", "label": [[4, 8, "B"], [0, 8, "A"], [0, 8, "A"]]}


@pytest.mark.parametrize(
    ("content", "line", "values", "count", "expected"),
    [
        ("x B-A\ny O\nz I-A\n\nx B-A\ny I-B\n", 3, ("I-A", "B-A", "IOB2"), 2, ["x:A", "z:A", "x:A", "y:B"]),
        (json_lines(WITHIN), 1, ("'Ann Lee' (PER)", "'Ann Lees'"), 1, ["Ann Lees:PER"]),
        (json_lines(NESTED), 1, ("'York' (B)", "'New York' (A)"), 1, ["New York:A"]),
    ],
)
def test_oddities_are_read_counted_and_reported(tmp_path, caplog, content, line, values, count, expected):
    instances = read(tmp_path / "a", content, **TWO)
    assert [each for instance in instances for each in entities(instance)] == expected
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert mentions(warning, f"{tmp_path}/a, line {line}: ", *values, f"in this file: {count})")
    strict = error_of(InputError, read, tmp_path / "a", content, strict=True, **TWO)
    assert strict.startswith(f"{tmp_path}/a, line {line}: ")


@pytest.mark.parametrize(
    ("content", "parameters", "line"),
    [
        ("x O\n\ny\tO z\n\nz B-A\n", TWO, 3),
        ("x O\n\ny X-A\n\nz B-A\n", TWO, 3),
        ("x U-A\n\ny B-A\n\nz U-A\n", TWO, 3),
        ("x *\n\ny *)\n\nz (A)\n", TWO, 3),
        ("x|y|O\na|b\nz|y|B-A\n", {}, 2),
        (json_lines(OUTSIDE, {"tokens": []}, {"tokens": ["z"], "tags": ["B-A"]}), {}, 2),
        (json_lines({"text": "x", "label": []}, {"text": "y", "label": [[0, 2, "A"]]}), {}, 2),
        (json_lines(OUTSIDE, {"tokens": ["y"], "tags": []}), {}, 2),
    ],
)
def test_bad_sentences(tmp_path, caplog, content, parameters, line):
    message = error_of(InputError, read, tmp_path / "a", content, **parameters)
    assert message.startswith(f"{tmp_path}/a, line {line}: ")
    instances = read(tmp_path / "a", content, skip_bad=True, **parameters)
    words = [word for each in instances for word in each["metadata"].metadata.words]
    assert words == (["x", "z"] if "z" in content else ["x"])
    assert f"{tmp_path}/a: 1 bad records" in caplog.text


@pytest.mark.parametrize(
    ("content", "line", "value"),
    [
        (json_lines(OUTSIDE, {"tokens": ["x"]}), 2, "no tags"),
        (json_lines({"tokens": ["x"]}, OUTSIDE), 1, "no tags"),
        (json_lines({"tokens": ["x"], "tags": [1]}), 1, "`tag_names`"),
        ("x\n\ny O\n", 3, "'y O'"),
        ("Ann y z B-PER\n###MEDLINE:9\n", 2, "`comments`"),
        ("Wort y z Art\nAnn y z B-PER\nin y z O\n", 1, "header"),
        ("Müller B-PER\n".encode("latin-1"), 1, "0xfc"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, line, value):
    message = error_of(InputError, read, tmp_path / "a", content)
    assert mentions(message, f"{tmp_path}/a, line {line}: ", value)


def test_a_prediction_has_an_instance_for_each_record(tmp_path):
    (tmp_path / "a").write_text(json_lines(PRODIGY | {"id": 7}, PRODIGY | {"id": 8, "answer": "reject"}))
    for every_record, ids in ((False, [7]), (True, [7, 8])):
        reader = NerReader()
        reader.every_record = every_record
        instances = reader.read(str(tmp_path / "a"))
        assert [each["metadata"].metadata.ids["id"] for each in instances] == ids


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("1\tO\tO\t-\n2\tBrasil\tB-LOC\t-\n", [["column1", "word", "tag", "column4"]]),
        ("O DET O\nBrasil PROPN LOC\nem ADP O\nano NOUN O\n", [["word", "column2", "tag"]]),
        ("Ann B-PER O\nO O O\n", [["word", "tag", "column3"], ["word", "column2", "tag"]]),
        ("B-Rating\tfive\nI-Rating\tstar\nO\tO\n", [["tag", "word"]]),
        ("doc TOKEN NE-COARSE MISC\nx Ann B-PER B-X\nx in O O\n", [["column1", "word", "tag", "column4"]]),
    ],
)
def test_columns_are_found(tmp_path, content, columns):
    (tmp_path / "a").write_text(content)
    candidates, *_ = find_columns(sample_of(str(tmp_path / "a")))
    assert [each["columns"] for each in candidates] == columns


def test_the_format_can_be_given(tmp_path):
    content = "x|NNP|B-X\n"
    (instance,) = read(tmp_path / "a", content)
    assert entities(instance) == ["x:X"]
    columns = {"format": "columns", "columns": ["word", "_", "tag"], "delimiter": "|"}
    (instance,) = read(tmp_path / "a", content, **columns)
    assert entities(instance) == ["x:X"]
    with pytest.raises(ConfigurationError, match="format"):
        NerReader.from_params(Params({"format": "xml"}))
