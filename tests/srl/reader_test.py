import json
import logging
import re

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_tasks.data.input_files import InputError
from elmo_tasks.paths import bundled
from elmo_tasks.srl.reader import SrlProposition, SrlReader

CONLL = """#begin document (d); part 000
d 0 0 Omar NNP (TOP* - - - - (PERSON) (ARG0*) (ARG1*) -
d 0 1 promised VBD * promise 01 2 - * (V*) * -
d 0 2 to TO * - - - - * (ARG1* * -
d 0 3 look VB * look 05 - - * * (V*) -
d 0 4 it PRP * - - - - * * (ARG2*) (3)
d 0 5 up RP *) - - - - * *) (C-V*) -

d 0 0 Gulls NNS (TOP*) - - - - * -
d 0 1 ! . *) - - - - * -

d 0 0 A DT (TOP* - - - - * (A1* -
d 0 1 visit NN *) visit 01 - - * (V*) -
#end document
""".replace("A DT (TOP* - - - - * (A1* -", "A DT (TOP* - - - - * (ARG1*) -")
PROPOSITIONS = [
    (1, ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "I-ARG1", "I-ARG1"]),
    (3, ["B-ARG1", "O", "O", "B-V", "B-ARG2", "B-C-V"]),
    (1, ["B-ARG1", "B-V"]),
]
CONLL_2005 = """Omar - (A0*) (A1*)
promised promise (V*V) *
to - (A1* *
look look * (V*)
it - * (A2*)
up - *A1) (C-V*)

Gulls -
! -

A - (A1*)
visit visit (V*)
"""
JSON_LINES = [
    {
        "tokens": ["Omar", "promised", "to", "look", "it", "up"],
        "pos": ["NNP", "VBD", "TO", "VB", "PRP", "RP"],
        "predicates": [
            {
                "index": 1,
                "arguments": [{"label": "ARG1", "spans": [[2, 6]]}, {"label": "ARG0", "spans": [[0, 1]]}],
            },
            {
                "index": 3,
                "predicate": "look",
                "arguments": [
                    {"label": "ARG1", "spans": [[0, 1]]},
                    {"label": "ARG2", "spans": [[4, 5]], "text": "it"},
                    {"label": "V", "spans": [[3, 4], [5, 6]]},
                ],
            },
        ],
    },
    {"tokens": ["Gulls", "!"], "predicates": [], "pos": ["NNS", "."]},
    {
        "tokens": ["A", "visit"],
        "predicates": [{"index": 1, "arguments": [{"label": "ARG1", "spans": [[0, 1]]}]}],
        "pos": ["DT", "NN"],
    },
]


def lines(objects):
    return "".join(json.dumps(each) + "\n" for each in objects)


def read(path, content, **options):
    path.write_text(content)
    return list(SrlReader(**options).read(str(path)))


def found(instances):
    return [(each["predicate"].sequence_index, each["metadata"].metadata.gold_tags) for each in instances]


def test_the_instances(tmp_path):
    instances = read(tmp_path / "a", CONLL)
    assert found(instances) == PROPOSITIONS
    for instance in instances:
        assert list(instance["tags"]) == instance["metadata"].metadata.gold_tags
    assert instances[2]["metadata"].metadata == SrlProposition(["A", "visit"], 1, ["B-ARG1", "B-V"])
    assert [token.text for token in instances[2]["tokens"]] == ["A", "visit"]
    sentences = [instance["sentence"].label for instance in instances]
    assert sentences[0] == sentences[1] != sentences[2]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"(?m)(?<!^#begin) (?!document)", "\t", text),
        lambda text: text.replace("d 0 ", "d  0 \t").replace("\n", " \r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("#begin document (d); part 000\n", "\n\n").replace("#end document\n", ""),
        lambda text: text.replace("! . *) - - - - * -", "! . *) - - - - * * -").replace(
            "NNS (TOP*) - - - - * -", "NNS (TOP*) - - - - * * -"
        ),  # an empty column in a sentence without predicates
        lambda text: text.replace("it PRP * - -", "it PRP * it -"),  # a lemma of a word that is no predicate
        lambda text: text.replace("look 05", "look -"),  # then the predicate is where V starts
    ],
)
def test_what_makes_no_difference(tmp_path, change):
    assert found(read(tmp_path / "a", change(CONLL))) == PROPOSITIONS


def test_conll_2005(tmp_path):
    instances = read(tmp_path / "a", CONLL_2005, columns=["word", "predicate", "arguments"])
    assert found(instances) == [
        (index, [tag.replace("ARG", "A") for tag in tags]) for index, tags in PROPOSITIONS
    ]


def test_json_lines(tmp_path):
    assert found(read(tmp_path / "a", lines(JSON_LINES))) == PROPOSITIONS


def test_other_columns(tmp_path):
    content = "(A0*)|-|a b|x\n(V*)|see|c|y\n"
    (instance,) = read(
        tmp_path / "a", content, columns=["arguments", "predicate", "word", "_"], delimiter="|"
    )
    assert instance["metadata"].metadata == SrlProposition(["a b", "c"], 1, ["B-A0", "B-V"])


@pytest.mark.parametrize("content", [CONLL, lines(JSON_LINES)])
def test_verbs_only(tmp_path, content, caplog):
    with caplog.at_level(logging.INFO):
        assert found(read(tmp_path / "a", content, verbs_only=True)) == PROPOSITIONS[:2]
    assert "3 sentences, 2 of them without predicates (left out), 2 predicates and 1 that" in caplog.text


@pytest.mark.parametrize("content", [CONLL, lines(JSON_LINES)])
def test_sentences_without_predicates(tmp_path, content, caplog):
    with caplog.at_level(logging.INFO):
        instances = read(tmp_path / "a", content, keep_without_predicates=True)
    assert found(instances) == [*PROPOSITIONS[:2], (-1, ["O", "O"]), PROPOSITIONS[2]]
    assert instances[2]["metadata"].metadata.predicate is None
    assert "3 sentences, 1 of them without predicates (kept), 3 predicates" in caplog.text


def test_a_folder_with_skeletons(tmp_path, caplog):
    (tmp_path / "a.gold_conll").write_text(CONLL)
    (tmp_path / "a.gold_skel").write_text("d 0 0 [WORD]\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.conll").write_text(CONLL)
    with caplog.at_level(logging.INFO):
        instances = list(SrlReader().read(str(tmp_path)))
    assert found(instances) == PROPOSITIONS * 2
    assert "1 skeleton files (*_skel) left out" in caplog.text
    with pytest.raises(InputError, match=r"found only skeleton files, expected files with words"):
        list(SrlReader().read(str(tmp_path / "*_skel")))


def test_fixtures():
    instances = list(SrlReader().read(bundled("fixtures/srl/train.conll")))
    assert len(instances) == 123
    labels = {tag[2:] for _, tags in found(instances) for tag in tags}
    assert {"ARG0", "V", "C-V", "C-ARG1", "R-ARG0", "ARGM-TMP"} <= labels


def error_of(tmp_path, content, **options):
    with pytest.raises(InputError) as error:
        read(tmp_path / "some.txt", content, **options)
    assert str(tmp_path / "some.txt") in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(V*) * -", "(V*) -", "line 3: found 13 columns in 'd 0 1 promised .* expected 14 as in line 2"),
        (
            "#begin document",
            "#begin\n#begin",
            "line 1: found 1 columns .* expected 12 or more: document, part",
        ),
        ("(ARG1* * -", "(ARG1 * -", r"line 4: found '\(ARG1' in column 12, expected \(LABEL\*, \*\)"),
        ("* *) (C-V*) -", "* * (C-V*) -", r"line 4: .* column 12, expected its end, \*\), by .* line 7"),
        ("* (ARG2*) (3)", "(A2*) (ARG2*) (3)", r"line 6: .*A2.*column 12, expected the end of ARG1, which"),
        ("(ARG2*) (3)", "*) (3)", r"line 6: found '\*\)' in column 13, expected \* or \(LABEL\*"),
        ("*) (C-V*) -", "*A0) (C-V*) -", r"line 7: found '\*A0\)' in column 12, expected the end of ARG1"),
        ("promise 01", "- -", r"line 2: found 2 columns of arguments in a sentence of 1 pred.* or a \(V\*\)"),
    ],
)
def test_wrong_columns(tmp_path, old, new, message):
    content = CONLL.replace(old, new, 1)
    assert content != CONLL
    if "V" in message and "sentence of" in message:
        content = content.replace("(V*)", "*", 1)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a", content)


def test_an_empty_word(tmp_path):
    options = {"columns": ["word", "predicate", "arguments"], "delimiter": "\t"}
    assert "line 2: found an empty word" in error_of(tmp_path, "a\t-\n\t-\n", **options)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tokens": ["a"]', "found no JSON"),
        ('{"words": ["a"]}', 'expected an object with "tokens": a list of strings'),
        ('{"tokens": ["a", 1]}', 'expected an object with "tokens": a list of strings'),
        ('{"tokens": []}', "found 0 tokens, expected one or more"),
        ('{"tokens": ["a"], "pos": []}', "found 1 tokens and 0 pos"),
        ('{"tokens": ["a"], "predicates": 3}', '"predicates": 3, expected "predicates": a list'),
        ('{"tokens": ["a"], "predicates": [3]}', "expected a predicate as"),
        ('{"tokens": ["a"], "predicates": [{"index": 1, "arguments": []}]}', "found the index 1"),
        ('{"tokens": ["a"], "predicates": [{"index": 0}]}', "'arguments'"),
        (
            '{"tokens": ["a"], "predicates": [{"index": 0, "arguments": [{"label": 0, "spans": [[0]]}]}]}',
            "expected a predicate as",
        ),
        (
            '{"tokens": ["a"], "predicates": [{"index": 0, "arguments": [{"label": "X", "spans": []}]}]}',
            "expected a predicate as",
        ),
    ],
)
def test_wrong_json(tmp_path, line, message):
    error = error_of(tmp_path, lines(JSON_LINES[:1]) + "\n" + line + "\n")
    assert ", line 3: " in error
    assert message in error


def test_no_sentence_and_no_predicate(tmp_path):
    assert "found no sentence, expected at least one" in error_of(tmp_path, "#begin document (d)\n\n")
    error = error_of(tmp_path, lines(JSON_LINES[1:2]))
    assert "found 1 sentences, 1 of them without predicates (left out), 0 predicates, expected" in error
    assert "found predicates without parts of speech" in error_of(
        tmp_path, CONLL_2005, columns=["word", "predicate", "arguments"], verbs_only=True
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["word", "predicate"]}, "columns: found .* expected a list of names with 'word', 'pred"),
        ({"columns": "word"}, "columns: found 'word'"),
        ({"delimiter": ""}, "delimiter: found ''"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        SrlReader(**options)


def test_from_params_and_a_misspelt_key():
    reader = DatasetReader.from_params(Params({"type": "elmo_srl", "verbs_only": True}))
    assert isinstance(reader.token_indexers["tokens"], SingleIdTokenIndexer)
    with pytest.raises(ConfigurationError, match="unknown key 'verb_only'; did you mean 'verbs_only'"):
        DatasetReader.from_params(Params({"type": "elmo_srl", "verb_only": True}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 0), "found no words"),
        ((["a"], 1), "found the predicate 1, expected one of 1 words"),
        ((["a"], 0, ["O", "O"]), "found 2 tags, expected 1"),
    ],
)
def test_text_to_instance(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        SrlReader().text_to_instance(*arguments)
    assert "tags" not in SrlReader().text_to_instance(["a"], 0).fields


def test_a_worker_takes_all_predicates_of_a_sentence(tmp_path):
    (tmp_path / "a").write_text(CONLL)
    shares = []
    for worker in (0, 1):
        reader = SrlReader()
        reader._set_worker_info(WorkerInfo(2, worker))
        shares.append(found(reader.read(str(tmp_path / "a"))))
    assert shares == [PROPOSITIONS[:2], PROPOSITIONS[2:]]


def test_a_batch_and_its_vocabulary(tmp_path, caplog):
    (tmp_path / "a").write_text(CONLL)
    loader = MultiProcessDataLoader(SrlReader(), str(tmp_path / "a"), batch_size=3)
    vocab = Vocabulary.from_instances(loader.iter_instances())
    loader.index_with(vocab)
    (batch,) = loader
    assert batch["predicate"].tolist() == [[1], [3], [1]]
    assert batch["sentence"].dtype == torch.long
    tags = vocab.get_token_to_index_vocabulary("labels")
    assert tags["O"] == 0
    # I-ARG0 does not occur.
    assert {tag[2:] for tag in tags if tag != "O"} == {"ARG0", "ARG1", "ARG2", "C-V", "V"}
    assert len(tags) == 1 + 2 * 5
    assert batch["tags"][0].tolist() == [tags[tag] for tag in PROPOSITIONS[0][1]]
    unknown = SrlReader().text_to_instance(["a", "b"], 0, ["B-V", "B-ARG9"])
    unknown["tags"].index(vocab)
    assert unknown["tags"]._indexed_labels == [tags["B-V"], 0]
    assert "does not know B-ARG9" in caplog.text
