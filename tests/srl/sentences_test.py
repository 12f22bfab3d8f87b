import re

import pytest

from elmo_tasks.data.input_files import InputError
from elmo_tasks.srl.sentences import CONLL_2012, Columns, Proposition, SrlSentence, read_sentences
from tests.srl.files import CONLL, CONLL_2005, JSON_LINES, PROPOSITIONS, lines


def read(path, content, columns=CONLL_2012, delimiter=None) -> list[SrlSentence]:
    path.write_text(content)
    return list(read_sentences(path, Columns(columns, delimiter)))


def found(sentences):
    return [(each.predicate, each.tags) for sentence in sentences for each in sentence.propositions]


@pytest.mark.parametrize("content", [CONLL, lines(JSON_LINES)])
def test_words_and_parts_of_speech(tmp_path, content):
    sentences = read(tmp_path / "a", content)
    assert [sentence.words for sentence in sentences] == [each["tokens"] for each in JSON_LINES]
    assert [len(sentence.propositions) for sentence in sentences] == [2, 0, 1]
    assert sentences[2].propositions == [Proposition(1, ["B-ARG1", "B-V"], "NN")]


@pytest.mark.parametrize(("escaped", "word"), [("/.", "."), ("/?", "?"), ("/", "/")])
def test_ends_of_sentences_as_ontonotes_writes_them(tmp_path, escaped, word):
    sentences = read(tmp_path / "a", CONLL.replace("0 1 ! .", f"0 1 {escaped} ."))
    assert sentences[1].words == ["Gulls", word]


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


def test_a_predicate_without_arguments(tmp_path):
    """Where the columns say which words are predicates, one whose column is empty is one."""
    columns = ["word", "predicate", "frameset", "arguments"]
    content = "It - - *\nrains {} {} *\n"
    assert found(read(tmp_path / "a", content.format("rain", "01"), columns)) == [(1, ["O", "O"])]
    assert found(read(tmp_path / "b", content.format("rain", "-"), columns)) == []


def test_conll_2005(tmp_path):
    sentences = read(tmp_path / "a", CONLL_2005, columns=["word", "predicate", "arguments"])
    assert found(sentences) == [
        (index, [tag.replace("ARG", "A") for tag in tags]) for index, tags in PROPOSITIONS
    ]


def test_json_lines(tmp_path):
    assert found(read(tmp_path / "a", lines(JSON_LINES))) == PROPOSITIONS
    with_blanks = lines(JSON_LINES).replace("{", " { ", 1)
    assert found(read(tmp_path / "b", with_blanks)) == PROPOSITIONS


def test_other_columns(tmp_path):
    content = "(A0*)|-|a b|x\n(V*)|see|c|y\n"
    (sentence,) = read(
        tmp_path / "a", content, columns=["arguments", "predicate", "word", "_"], delimiter="|"
    )
    assert sentence == SrlSentence(["a b", "c"], [Proposition(1, ["B-A0", "B-V"], None)], 1)


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
    with pytest.raises(InputError, match="line 2: found an empty word"):
        read(tmp_path / "a", "a\t-\n\t-\n", **options)


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
        ('{"tokens": ["a"], "predicates": [{"index": 0.0, "arguments": []}]}', "found the index 0.0"),
        ('{"tokens": ["a"], "predicates": [{"index": 0}]}', "'arguments'"),
        (
            '{"tokens": ["a"], "predicates": [{"index": 0, "arguments": [{"label": 0, "spans": [[0]]}]}]}',
            "expected a predicate as",
        ),
        (
            '{"tokens": ["a"], "predicates": [{"index": 0, "arguments": [{"label":"X", "spans": [[0,0]]}]}]}',
            "(found the span [0, 0] of X, expected the end after the last token, as [0, 1])",
        ),
        (
            '{"tokens": ["a"], "predicates": [{"index": 0, "arguments": [{"label": "X", "spans": []}]}]}',
            "expected a predicate as",
        ),
    ],
)
def test_wrong_json(tmp_path, line, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a", lines(JSON_LINES[:1]) + "\n" + line + "\n")
    assert str(caught.value).startswith(f"{tmp_path / 'a'}, line 3: ")
    assert message in str(caught.value)


def test_a_predicate_of_json_is_tagged_where_no_span_has_it(tmp_path):
    predicates = [
        {"index": 1, "arguments": []},
        {"index": 0, "arguments": [{"label": "R", "spans": [[0, 2]]}]},
    ]
    (sentence,) = read(tmp_path / "a", lines([{"tokens": ["a", "b"], "predicates": predicates}]))
    assert sentence.propositions == [
        Proposition(1, ["O", "B-V"], None),
        Proposition(0, ["B-R", "I-R"], None),
    ]


@pytest.mark.parametrize("content", ["", "\n \n", "#begin document (d)\n#end document\n"])
def test_no_sentence(tmp_path, content):
    assert read(tmp_path / "a", content) == []
