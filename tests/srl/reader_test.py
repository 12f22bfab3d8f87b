import gzip
import json
import logging
import re
from functools import partial

import pytest
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader

from elmo_tasks.data.input_files import InputError
from elmo_tasks.srl.reader import SrlProposition, SrlReader
from tests.errors import error_of, mentions
from tests.records import json_lines, read_with

# Three sentences in each format

CONLL = """#begin document (d); part 000
d 0 0 Omar NNP (TOP* - - - - (PERSON) (ARG0*) (ARG1*) -
d 0 1 promised VBD * promise 01 2 - * (V*) * -
d 0 2 to TO * - - - - * (ARG1* * -
d 0 3 look VB * look 05 - - * * (V*) -
d 0 4 it PRP * - - - - * * (ARG2*) (3)
d 0 5 up RP *) - - - - * *) (C-V*) -

d 0 0 Gulls NNS (TOP*) - - - - * -
d 0 1 ! . *) - - - - * -

d 0 0 A DT (TOP* - - - - * (ARG1*) -
d 0 1 visit NN *) visit 01 - - * (V*) -
#end document
"""
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
ALL_OF_2005 = re.sub(r"(?m)^(\S+) (\S+)", r"\1 NN (S* * - \2", CONLL_2005)
COLUMNS_2005 = ["word", "predicate", "arguments"]


def sentence(words, pos, *predicates):
    return {"tokens": words.split(), "pos": pos.split(), "predicates": list(predicates)}


def argument(label, *spans, **more):
    return {"label": label, "spans": list(spans), **more}


PROMISED = {"index": 1, "arguments": [argument("ARG1", [2, 6]), argument("ARG0", [0, 1])]}
LOOK = [argument("ARG1", [0, 1]), argument("ARG2", [4, 5], text="it"), argument("V", [3, 4], [5, 6])]
JSON_LINES = [
    sentence(
        *("Omar promised to look it up", "NNP VBD TO VB PRP RP", PROMISED),
        {"index": 3, "predicate": "look", "arguments": LOOK},
    ),
    sentence("Gulls !", "NNS ."),
    sentence("A visit", "DT NN", {"index": 1, "arguments": [argument("ARG1", [0, 1])]}),
]


read = partial(read_with, SrlReader)


def gold(instances):
    return [(each["metadata"].metadata.predicate, each["metadata"].metadata.gold_tags) for each in instances]


def sentences_of(path, content):
    """The instances of all sentences, as for a prediction."""
    reader = SrlReader()
    reader.every_record = True
    return read_with(reader, path, content)


def test_ends_of_sentences_as_in_ontonotes(tmp_path):
    sentences = sentences_of(tmp_path / "a", CONLL.replace("0 1 ! .", "0 1 /. ."))
    assert sentences[1].text.words == ["Gulls", "."]


@pytest.mark.parametrize(
    "content",
    [
        CONLL,
        re.sub(r"(?m)(?<!^#begin) (?!document)", "\t", CONLL),
        CONLL.replace("#begin document (d); part 000\n", "\n\n").replace("#end document\n", ""),
        # an empty column in a sentence without predicates
        CONLL.replace("! . *) - - - - * -", "! . *) - - - - * * -").replace(
            "NNS (TOP*) - - - - * -", "NNS (TOP*) - - - - * * -"
        ),
        CONLL.replace("it PRP * - -", "it PRP * it -"),  # a lemma of a word that is not a predicate
        CONLL.replace("look 05", "look -"),  # the predicate is then where V starts
        json_lines(*JSON_LINES),
    ],
)
def test_files_with_the_same_propositions(tmp_path, content):
    assert gold(read(tmp_path / "a", content)) == PROPOSITIONS


PROPOSITIONS_2005 = [(index, [tag.replace("ARG", "A") for tag in tags]) for index, tags in PROPOSITIONS]
HE_2017 = """1 Omar promised to look it up ||| B-A0 B-V B-A1 I-A1 I-A1 I-A1
3 Omar promised to look it up ||| B-A1 O O B-V B-A2 B-C-V
1 A visit |||   B-A1 B-V
"""
WORDS, PROPS = (re.sub(pattern, "", CONLL_2005) for pattern in (r"(?m) .*$", r"(?m)^\S+ "))


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (CONLL_2005, {}),
        (CONLL_2005, {"columns": COLUMNS_2005}),
        (ALL_OF_2005, {}),
        (HE_2017, {}),
        ("# a comment\n" + CONLL_2005, {}),
    ],
)
def test_formats_of_2005(tmp_path, content, options):
    assert gold(read(tmp_path / "a", content, **options)) == PROPOSITIONS_2005


UD = ["1 Omar omar PROPN NN _ 2 nsubj", "2 sings sing VERB VB _ 0 root", "3 songs song NOUN NN _ 2 obj"]
UD_2009 = ["1 Omar omar omar N N _ _ 2 2 SBJ SBJ", "2 sings sing sing V V _ _ 0 0 ROOT ROOT"]


def dependencies(rows, cells):
    """A sentence without predicates, and one of rows with further cells."""
    lines = [f"{row} {more}" for row, more in zip(rows, cells, strict=True)]
    without = "1-2 Jaja" + 8 * " _" + "\n1 Ja ja INTJ I _ 0 root _ _\n2 . . P P _ 1 punct _ _"
    sentences = [without.replace(" ", "\t"), "\n".join(lines).replace(" ", "\t"), ""]
    return "\n\n# sent_id = s\n".join(sentences)


@pytest.mark.parametrize(
    ("content", "tags"),
    [
        (dependencies(UD, ["_ _ _ A0", "_ _ sing.01 _", "_ _ _ A1"]), ["B-A0", "B-V", "B-A1"]),
        (dependencies(UD, ["_ _ A0", "Y sing.01 _", "_ _ A1"]), ["B-A0", "B-V", "B-A1"]),  # German
        (dependencies(UD, ["_ _ A0 _", "Y sing.01 V _", "Y song.01 A1 V"]), ["B-A0", "B-V", "B-A1"]),
        (dependencies(UD_2009, ["_ _ A0", "Y sing.01 _"]), ["B-A0", "B-V"]),
    ],
)
def test_universal_propbank_and_conll2009(tmp_path, content, tags):
    """A sentence without predicates has fewer columns, and its rows are as good as others."""
    assert gold(read(tmp_path / "a", content))[0] == (1, tags)
    without, _ = sentences_of(tmp_path / "a", content)
    assert without.text.words == ["Ja", "."]
    assert without.propositions == []


@pytest.mark.parametrize("row", ["3", "3\tsongs\tsong\tNOUN\tNN\t_\t2\tobj\t_\t_"])
def test_a_row_of_dependencies_without_its_columns(tmp_path, row):
    content = dependencies(UD, ["_ _ _ A0", "_ _ sing.01 _", "_ _ _ A1"])
    cut = content.replace("3\tsongs\tsong\tNOUN\tNN\t_\t2\tobj\t_\t_\t_\tA1", row)
    assert cut != content
    message = error_of(InputError, read, tmp_path / "a", cut)
    assert mentions(message, f"{tmp_path / 'a'}, line 8: ", "12 are needed")


PLUS = "# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC UP:PRED UP:ARGHEADS"


def plus(header, arguments):
    none = arguments.count(" ") * " _" + " _"
    rows = [f"{i} {word} x X X _ 0 x _ _ _{none}" for i, word in enumerate(("Omar", "sings", "it", "now"), 1)]
    rows[1] = rows[1].removesuffix("_" + none) + f"sing.01 {arguments}"
    return f"{header}\n" + "\n".join(rows).replace(" ", "\t") + "\n"


@pytest.mark.parametrize(
    ("header", "arguments", "tags"),
    [
        (
            f"{PLUS} UP:ARGSPANS",
            "A0:1|AM-X:3|AM-X:4 A0:1-1|AM-X:3-4|AM-X:3-4",
            ["B-A0", "B-V", "B-AM-X", "I-AM-X"],
        ),
        (PLUS, "A0:1|AM-X:3", ["B-A0", "B-V", "B-AM-X", "O"]),
        (PLUS, "_", ["O", "B-V", "O", "O"]),
    ],
)
def test_universal_propbank_with_its_words(tmp_path, header, arguments, tags):
    assert gold(read(tmp_path / "a", plus(header, arguments))) == [(1, tags)]


def test_an_argument_outside_of_its_sentence(tmp_path):
    message = error_of(InputError, read, tmp_path / "a", plus(PLUS, "A0:5"))
    assert mentions(message, f"{tmp_path / 'a'}, line 3", "A0:5")


@pytest.mark.parametrize(
    ("words", "props", "path"),
    [
        ("a.words", "a.props", ""),
        ("a.words", "a.props", "a.props"),
        ("words/train.02.words.gz", "props/train.02.props.gz", "words"),
        ("words.txt", "props.txt", "words.txt"),
    ],
)
def test_words_and_props_in_two_files(tmp_path, words, props, path):
    for name, content in ((words, WORDS), (props, PROPS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        opened = gzip.open if name.endswith(".gz") else open
        with opened(tmp_path / name, "wt") as file:
            file.write(content)
    assert gold(SrlReader().read(str(tmp_path / path))) == PROPOSITIONS_2005


def test_words_and_props_out_of_step(tmp_path):
    (tmp_path / "a.words").write_text(WORDS)
    (tmp_path / "a.props").write_text(PROPS.replace("\n\n", "\n", 1))
    with pytest.raises(InputError, match=r"a\.props, line 7: .*'-'"):
        list(SrlReader().read(str(tmp_path / "a.words")))


NESTED = "Omar - (A0(A1*)\nand - *\nAna - *)\nfly fly (V*)\n"
NESTED_JSON = {
    "tokens": ["Omar", "and", "Ana", "fly"],
    "predicates": [{"index": 3, "arguments": [argument("A1", [0, 1]), argument("A0", [0, 3])]}],
}


@pytest.mark.parametrize(
    "content",
    [
        NESTED,
        NESTED.replace("(A0(A1*)", "(A0(A0(A1*)").replace("Ana - *)", "Ana - *))"),
        json_lines(NESTED_JSON),
    ],
)
def test_the_outer_of_nested_arguments_is_kept(tmp_path, content, caplog):
    assert gold(read(tmp_path / "a", content)) == [(3, ["B-A0", "I-A0", "I-A0", "B-V"])]
    assert re.search(r"a, line 1: A[012] .*A0.*: [12]\)", caplog.text)
    with pytest.raises(InputError, match=r"a, line 1: A[012].*A0"):
        read(tmp_path / "a", content, strict=True)


def test_bad_sentences_are_left_out(tmp_path, caplog):
    for i, content in enumerate(
        (CONLL.replace("(ARG1*) -", "(ARG1 -", 1), json_lines(*JSON_LINES[:1]) + "{\n")
    ):
        assert gold(read(tmp_path / "a", content, skip_bad=True)) == PROPOSITIONS[2 * (1 - i) :][:2]
        assert caplog.text.count("1 bad records") == i + 1


@pytest.mark.parametrize(
    ("content", "predicates", "options"),
    [
        ("Ana\nflew\n\nGulls\n", [None, None], {}),
        (json_lines({"tokens": ["Ana", "flew"]}, {"tokens": ["Gulls"], "predicates": []}), [None, []], {}),
        (json_lines({"tokens": ["Ana", "flew"], "predicates": [1]}), [[1]], {}),
        (json_lines({"tokens": ["Ana", "flew"], "predicates": [{"index": 1}]}), [[1]], {}),
        ("1 Ana flew |||\n", [[1]], {}),
        ("Ana -\nflew fly\n\nGulls -\n", [[1], []], {"format": "conll2005"}),
        (re.sub(r"(?m)^(d( \S+){10}).* (\S+)$", r"\1 \3", CONLL), [[1, 3], [], [1]], {}),
    ],
)
def test_sentences_without_labels(tmp_path, content, predicates, options):
    """In a prediction, each sentence is a record; `None` are predicates that the predictor finds."""
    reader = SrlReader(**options)
    reader.every_record = True
    (tmp_path / "a").write_text(content)
    instances = list(reader.read(str(tmp_path / "a")))
    found = [instance.propositions for instance in instances]
    assert [each and [one["metadata"].metadata.predicate for one in each] for each in found] == predicates
    assert [bool(instance.reason) for instance in instances] == [not each for each in predicates]
    assert not any("tags" in one.fields for each in found for one in each or [])


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (CONLL, [{"doc_key": "d_0", "sentence": number} for number in range(3)]),
        (CONLL_2005, [{"sentence": number} for number in range(3)]),
        (json_lines({"id": 7, "sent_id": "x", "tokens": ["a"]}), [{"id": 7, "sent_id": "x"}]),
    ],
)
def test_ids_of_sentences(tmp_path, content, ids):
    sentences = sentences_of(tmp_path / "a", content)
    assert [sentence["metadata"].metadata.ids for sentence in sentences] == ids


def test_a_predicate_without_arguments(tmp_path):
    """If the columns mark predicates, a marked word with an empty column is one."""
    columns = ["word", "predicate", "frameset", "arguments"]
    for frameset, found in (("01", [(1, ["O", "O"])]), ("-", [])):
        content = f"It - - *\nrains rain {frameset} *\n"
        instances = read(tmp_path / "a", content, columns=columns, keep_without_predicates=True)
        assert gold(instances)[: len(found)] == found
        assert len(instances) == 1


def test_a_predicate_of_json_is_tagged_if_it_is_in_no_span(tmp_path):
    predicates = [{"index": 1, "arguments": []}, {"index": 0, "arguments": [argument("R", [0, 2])]}]
    found = read(tmp_path / "a", json_lines({"tokens": ["a", "b"], "predicates": predicates}))
    assert gold(found) == [(1, ["O", "B-V"]), (0, ["B-R", "I-R"])]


@pytest.mark.parametrize(
    ("old", "new", "line", "value"),
    [
        ("(V*) * -", "(V*) -", 3, "13 columns, not 14 as in line 2"),
        ("#begin document", "#begin\n#begin", 1, "1 columns, not 12 or more"),
        ("*) (C-V*) -", "*A0) (C-V*) -", 7, "'*A0)' in column 12"),
        ("d 0 0 Omar", "0 Omar omar PROPN", 2, "'omar' in column 3"),
        ("promise 01 2 - * (V*)", "- - 2 - * *", 2, "1 predicates and 2 columns"),
    ],
)
def test_wrong_columns(tmp_path, old, new, line, value):
    content = CONLL.replace(old, new, 1)
    assert content != CONLL
    message = error_of(InputError, read, tmp_path / "a", content, format="conll2012")
    assert mentions(message, f"{tmp_path}/a, line {line}: ", value)


RIGHT_TO_LEFT = {"index": 0, "arguments": [argument("A0", [1, 2], [0, 1])]}


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (3, "index 3"),
        ({"index": 0}, "no arguments"),
        ({"index": 0, "arguments": [{"label": "A0", "spans": [[0, 1.0]]}]}, "numbers"),
        ({"index": 0, "arguments": [{"label": 5, "spans": [[0, 1]]}]}, "5"),
        ({"index": 0, "arguments": [{"label": "A0", "spans": [[0, 0]]}]}, "A0"),
        (json.dumps({"tokens": ["a", "b"], "predicates": [RIGHT_TO_LEFT]}), "A0"),
    ],
)
def test_wrong_json(tmp_path, content, value):
    """A line, or a predicate of the sentence "a"."""
    line = content if isinstance(content, str) else json.dumps({"tokens": ["a"], "predicates": [content]})
    message = error_of(InputError, read, tmp_path / "a", json_lines(*JSON_LINES[:1]) + "\n" + line + "\n")
    assert mentions(message, f"{tmp_path / 'a'}, line 3: ", value)


def test_the_instances(tmp_path):
    instances = read(tmp_path / "a", CONLL)
    assert gold(instances) == PROPOSITIONS
    for instance in instances:
        assert list(instance["tags"]) == instance["metadata"].metadata.gold_tags
    assert instances[2]["metadata"].metadata == SrlProposition(["A", "visit"], 1, ["B-ARG1", "B-V"])
    assert [token.text for token in instances[2]["tokens"]] == ["A", "visit"]
    sentences = [instance["metadata"].metadata.sentence for instance in instances]
    assert sentences[0] == sentences[1] != sentences[2]
    texts = (["a", "b"], ["a\0b"], ["a b"], ['a", "b'])
    numbers = {SrlReader().text_to_instance(words, 0)["metadata"].metadata.sentence for words in texts}
    assert len(numbers) == len(texts)


@pytest.mark.parametrize("content", [CONLL, json_lines(*JSON_LINES)])
def test_verbs_only_and_sentences_without_predicates(tmp_path, content, caplog):
    with caplog.at_level(logging.INFO):
        assert gold(read(tmp_path / "a", content, verbs_only=True)) == PROPOSITIONS[:2]
    assert "3 sentences, 1 predicates that are not verbs left out, 2 predicates, 2 sentences" in caplog.text
    with caplog.at_level(logging.INFO):
        instances = read(tmp_path / "a", content, keep_without_predicates=True)
    assert gold(instances) == [*PROPOSITIONS[:2], (None, ["O", "O"]), PROPOSITIONS[2]]
    assert not any(instances[2]["verb_indicator"])
    assert "3 sentences, 3 predicates, 1 sentences without predicates kept" in caplog.text


def test_a_batch_and_its_vocabulary(tmp_path, caplog):
    (tmp_path / "a").write_text(CONLL)
    loader = MultiProcessDataLoader(SrlReader(), str(tmp_path / "a"), batch_size=3)
    vocab = Vocabulary.from_instances(loader.iter_instances())
    loader.index_with(vocab)
    (batch,) = loader
    assert batch["verb_indicator"].argmax(dim=1).tolist() == [1, 3, 1]
    assert batch["verb_indicator"].sum(dim=1).tolist() == [1, 1, 1]
    tags = vocab.get_token_to_index_vocabulary("labels")
    assert tags["O"] == 0
    # Also I-ARG0, which does not occur
    labels = ("ARG0", "ARG1", "ARG2", "C-V", "V")
    assert set(tags) == {"O"} | {f"{prefix}-{label}" for prefix in "BI" for label in labels}
    assert batch["tags"][0].tolist() == [tags[tag] for tag in PROPOSITIONS[0][1]]
    unknown = SrlReader().text_to_instance(["a", "b"], 0, ["B-V", "B-ARG9"])["tags"]
    unknown.index(vocab)
    assert unknown.as_tensor({"num_tokens": 2}).tolist() == [tags["B-V"], 0]
    assert "type ARG9" in caplog.text
