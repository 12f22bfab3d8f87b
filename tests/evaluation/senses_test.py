import gzip
import json

import pytest

from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.senses import SenseSentence, Target, read_first_senses, read_senses

XML = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="handmade">
<text id="d000">
<sentence id="d000.s000">
<wf lemma="the" pos="DET">The</wf>
<instance id="d000.s000.t000" lemma="art" pos="NOUN">art</instance>
<wf lemma="of" pos="ADP">of</wf>
<instance id="d000.s000.t001" lemma="bell_ringing" pos="NOUN">bell ringing</instance>
<wf lemma="&amp;" pos="CONJ">&amp;</wf>
</sentence>
<sentence id="d000.s001">
<wf lemma="Łódź" pos="NOUN">Łódź</wf>
</sentence>
</text>
</corpus>
"""
KEY = "d000.s000.t000 art%1:09:00:: art%1:06:00::\nd000.s000.t001 bell_ringing%1:04:00::\n"


@pytest.fixture
def xml(tmp_path):
    (tmp_path / "a.data.xml").write_text(XML, encoding="utf-8")
    (tmp_path / "a.gold.key.txt").write_text(KEY)
    return tmp_path / "a.data.xml"


@pytest.mark.parametrize("packed", [[], ["a.data.xml"], ["a.data.xml", "a.gold.key.txt"]])
def test_folder(xml, packed):
    expected = read_senses(str(xml))
    for name in packed:
        file = xml.with_name(name)
        xml.with_name(f"{name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert read_senses(str(xml.parent)) == expected


def test_xml(xml):
    assert read_senses(str(xml)) == [
        SenseSentence(
            ["The", "art", "of", "bell", "ringing", "&"],
            [
                Target(1, 2, "art.NOUN", ("art%1:09:00::", "art%1:06:00::")),
                Target(3, 5, "bell_ringing.NOUN", ("bell_ringing%1:04:00::",)),
            ],
        ),
        SenseSentence(["Łódź"], []),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</text>", "</txet>", "a.data.xml, line 14: found mismatched tag"),
        ("</corpus>\n", "", "a.data.xml, line 15: found no element found"),
        ("s000.t000", "s000.t009", "a.data.xml, line 10: found the instance {'id': 'd000.s000.t009'"),
        (' lemma="art"', "", "expected text, lemma, pos, and an id of .gold.key.txt"),
        (">art<", "> <", "expected text, lemma, pos"),
    ],
)
def test_errors_in_xml(xml, old, new, message):
    xml.write_text(XML.replace(old, new))
    with pytest.raises(InputError) as error:
        read_senses(str(xml))
    assert message in str(error.value)


def test_errors_in_keys(xml):
    key = xml.with_name("a.gold.key.txt")
    key.write_text("d000.s000.t000\n")
    with pytest.raises(InputError, match=r"a.gold.key.txt, line 1: found 'd000.s000.t000', expected an id"):
        read_senses(str(xml))
    key.write_text("d000.s000.t000 x\n\nd000.s000.t001 y\n")
    assert [target.senses for target in read_senses(str(xml))[0].targets] == [("x",), ("y",)]
    key.unlink()
    with pytest.raises(InputError, match=r"a.gold.key.txt, line 1: found No such file"):
        read_senses(str(xml))


def test_jsonl():
    sentences = read_senses(str(bundled("fixtures/evaluation/wsd_train.jsonl")))
    assert len(sentences) == 30
    words = ["She", "opened", "an", "account", "at", "the", "bank", "on", "the", "corner", "."]
    assert sentences[0] == SenseSentence(words, [Target(6, 7, "bank", ("money",))])


def test_blank_lines_in_jsonl(tmp_path):
    line = json.dumps({"lemma": "b", "tokens": ["a", "b"], "index": 1, "sense": "x"})
    (tmp_path / "a.jsonl").write_text(f"{line}\n\n{line}\n\n")
    assert len(read_senses(str(tmp_path / "a.jsonl"))) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": 3}, "line 1: found index is 3, of 3 tokens"),
        ({"index": "1"}, "found index is '1'"),
        ({"index": True}, "found index is True"),
        ({"tokens": "a b c"}, "found tokens is no list of strings"),
        ({"sense": ["x"]}, "found lemma is 'b', sense is ['x']"),
        ({"sense": None}, "found no 'sense', expected JSON with"),
        (None, "found no JSON (Expecting value, column 1), expected JSON with"),
    ],
)
def test_errors_in_jsonl(tmp_path, change, message):
    content = {"lemma": "b", "tokens": ["a", "b", "c"], "index": 1, "sense": "x"} | (change or {})
    kept = {key: value for key, value in content.items() if value is not None}
    (tmp_path / "a.jsonl").write_text(json.dumps(kept) if change else "lemma")
    with pytest.raises(InputError) as error:
        read_senses(str(tmp_path / "a.jsonl"))
    assert message in str(error.value)


def test_no_sense(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(InputError, match=r"a.jsonl: found no word with a sense, expected at least one"):
        read_senses(str(tmp_path))


def test_first_senses(tmp_path):
    path = tmp_path / "index.sense"
    path.write_text("art%1:06:00:: 02743547 2 5\nart%1:04:00:: 00933420 1 9\nwell%5:00:00:good:00 1 1 2\n\n")
    assert read_first_senses(str(path)) == {"art.NOUN": "art%1:04:00::", "well.ADJ": "well%5:00:00:good:00"}
    path.write_text("art 1 2\n")
    with pytest.raises(InputError, match=r"index.sense, line 1: found 'art 1 2', expected sense key"):
        read_first_senses(str(path))
