import json
import re

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.coref.documents import CorefDocument, read_documents
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.data.input_files import InputError
from tests.errors import input_error


def row(word, chains="-", speaker="-", between="\t"):
    return between.join(["d", "0", "0", word, "XX", "*", "-", "-", "-", speaker, "*", chains])


def conll(*sentences, id="nw/d", part=0, **options):
    """Sentences of words with their chains: `"Ana/(1) lost/- her/(2|(1) keys/2)"`."""
    rows = [
        [row(*word.rsplit("/", 1), **options) for word in sentence.split()] + [""] for sentence in sentences
    ]
    lines = [line for sentence in rows for line in sentence]
    return "\n".join([f"#begin document ({id}); part {part:03d}", *lines, "#end document"]) + "\n"


ANA = conll("Ana/(1) lost/- her/(2|(1) keys/2) ./-", "She/(1) did/-")
CLUSTERS = [[(0, 0), (2, 2), (5, 5)], [(2, 3)]]
"""[Ana] lost [[her] keys] . [She] did"""
JSON = {
    "doc_key": "nw/d_0",
    "sentences": [["Ana", "lost", "her", "keys", "."], ["She", "did"]],
    "speakers": [["-"] * 5, ["-"] * 2],
    "clusters": [[[5, 5], [0, 0], [2, 2]], [[2, 3]]],
}


def read(tmp_path, text):
    (tmp_path / "a").write_text(text, encoding="utf-8")
    return [document() for document in read_documents(tmp_path / "a")]


def error(tmp_path, text):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    file, message = str(caught.value).split(", ", 1)
    assert file == str(tmp_path / "a")
    return message


def test_a_document(tmp_path):
    (document,) = read(tmp_path, conll("Ana/(1) lost/- her/(2|(1) keys/2) ./-", "She/(1) did/-", speaker="B"))
    assert document.id == "nw/d_0"
    assert document.sentences == JSON["sentences"]
    assert document.speakers == ["B"] * 7
    assert document.clusters == CLUSTERS
    assert document.words.text == "Ana lost her keys . She did"
    assert len(document) == 7


def test_parts_are_documents_of_their_own(tmp_path):
    first, second = read(tmp_path, ANA + conll("It/(1) rained/-", part=12))
    assert (first.id, second.id) == ("nw/d_0", "nw/d_12")
    assert second.clusters == [[(0, 0)]]


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (["a/(1 b/(2 c/2)|1)"], [[(0, 2)], [(1, 2)]]),  # nested
        (["a/(1 b/(2 c/1) d/2)"], [[(0, 2)], [(1, 3)]]),  # crossing
        (["a/(1|(1 b/1) c/1)"], [[(0, 1), (0, 2)]]),  # nested in one chain, the last one ends first
        (["a/(1 b/(1 c/1) d/1)"], [[(0, 3), (1, 2)]]),
        (["a/(1)|(2 b/2)|(3)"], [[(0, 0)], [(0, 1)], [(1, 1)]]),
        (["a/(1 b/-", "c/1)"], [[(0, 2)]]),  # over the end of a sentence
        (["a/(x-7) b/(x-7)"], [[(0, 0), (1, 1)]]),  # a name for a chain
        (["a/- b/-"], []),
    ],
)
def test_mentions(tmp_path, sentences, expected):
    (document,) = read(tmp_path, conll(*sentences))
    assert document.clusters == expected


def test_clusters_with_a_mention_in_common_are_joined(tmp_path):
    (document,) = read(tmp_path, conll("a/(1)|(2) b/(1) c/(2) d/(3)|(3)"))
    assert document.clusters == [[(0, 0), (1, 1), (2, 2)], [(3, 3)]]
    assert document.joined == 1


@pytest.mark.parametrize(
    "content",
    [
        ANA.replace("\n", "\r\n"),
        "\ufeff\n\n" + ANA + "\n \n",
        ANA.replace("\t", "   "),
        ANA.replace("\n\n", "\n\n\n"),
        ANA.replace("\n\n#end", "\n#end"),
        ANA.replace("\t*\t", "\t*\t*\t(ARG0*)\t"),  # columns of predicates
        ANA.replace("part 000", "part 0"),
        ANA.replace("\t.\t", "\t/.\t"),
        "\n" + json.dumps(JSON),
    ],
)
def test_files_with_the_same_document(tmp_path, content):
    assert read(tmp_path, content) == read(tmp_path, ANA)
    assert read(tmp_path, content + "\n\n" + content.removeprefix("\ufeff")) == read(tmp_path, ANA) * 2


def test_words_with_white_space_and_empty_words(tmp_path):
    """OntoGUM has an empty word between tabs; positions count it."""
    (document,) = read(tmp_path, ANA.replace("\tkeys\t", "\tcar\u00a0 keys\t").replace("\t.\t", "\t\t"))
    assert document.sentences[0] == ["Ana", "lost", "her", "car\u00a0 keys", ""]
    assert document.clusters == CLUSTERS
    (document,) = read(tmp_path, ANA.replace("keys", "car\u00a0keys").replace("\t", "   "))
    assert document.sentences[0] == ["Ana", "lost", "her", "car\u00a0keys", "."]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (conll("a/(1 b/(2", "c/2)"), "line 2: found the start"),
        (conll("a/- b/1) c/(1"), "line 3: found the end"),
        (conll("a/(1) b/(1)|1)"), "line 3: found the end"),
        (conll("a/1"), "line 2: found the chains '1', expected '-', or '(ID'"),
        (conll("a/(1||(2)"), "line 2: found the chains ''"),
        (conll("a/()"), "line 2: found the chains '()'"),
        (ANA.replace("\t-\t*\t", "\t", 1), "line 2: found 10 columns in 'd\\t0\\t0\\tAna"),
        (ANA.replace("#end document\n", ""), "line 10: found the end"),
        (
            ANA.replace("#begin doc", "#begin"),
            "line 1: found '#beginument (nw/d); part 000'",
        ),
        (
            ANA.replace("#end document\n", "") + ANA,
            "line 11: found #begin document (nw/d); part 000, expected",
        ),
        (ANA.replace("\t0\tlost", "\tx\tlost"), "line 3: found 'x' in column 3"),
        (ANA + "#end document", "line 12: found '#end document'"),
        (conll(), "line 2: found a document"),
        ("{'a'", "line 1: found no JSON"),
        (json.dumps(JSON) + "\n[1]", "line 2: found '[1]'"),
        ('{"tokens": []}', "line 1: found "),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    assert error(tmp_path, text).startswith(message)


LITBANK_ROWS = [
    ("Ana", "(1)"),
    ("lost", ""),
    ("her", "(2|(1)"),
    ("keys", "2)"),
    (".", ""),
    ("", ""),
    ("She", "(1)"),
    ("did", ""),
]
GUM = """# begin document GUM_x
0\tAna\t(person-1)
1\tlost\t_
2\ther\t(object-2(person-1)
3\tkeys\tobject-2)
4\t.\t_
# a comment
5\tShe\t(person-1)
6\tdid\t_
# end document

"""
LITBANK = "\n".join(
    [
        "#begin document (nw/d); part 0",
        *(
            f"d\t0\t0\t{word}\t_\t_\t_\t_\t_\t_\t_\t_\t{chains}" if word else ""
            for word, chains in LITBANK_ROWS
        ),
        "#end document",
    ]
)
SEMEVAL = "\n".join(
    [
        "#begin document wsj_1294.mrg",
        *(
            "\t".join([str(number), word, *["_"] * 13, chains or "_"]) if word else ""
            for number, (word, chains) in zip([1, 2, 3, 4, 5, 0, 1, 2], LITBANK_ROWS, strict=True)
        ),
        "#end document wsj_1294.mrg",
    ]
)
BERT = {
    "doc_key": "nw/d_0",
    "sentences": [
        ["[CLS]", "An", "##a", "lost", "her", "key", "##s", "[SEP]"],
        ["[CLS]", ".", "She", "did", "[SEP]"],
    ],
    "speakers": [["[SPL]", *["-"] * 6, "[SPL]"], ["[SPL]", *["-"] * 3, "[SPL]"]],
    "sentence_map": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
    "subtoken_map": [0, 0, 0, 1, 2, 3, 3, 3, 4, 4, 5, 6, 6],
    "clusters": [[[1, 2], [4, 4], [10, 10]], [[4, 6]]],
}
PRECO = {
    "id": "nw/d_0",
    "sentences": JSON["sentences"],
    "mention_clusters": [[[0, 0, 1], [0, 2, 3], [1, 0, 1]], [[0, 2, 4]]],
}


@pytest.mark.parametrize(
    ("content", "id", "sentences"),
    [
        (LITBANK, "nw/d_0", [5, 2]),
        (GUM, "GUM_x", [7]),
        (GUM.replace(" GUM_x", " ").replace("person-", ""), "a", [7]),  # OntoGUM
        (
            re.sub(r"(?m)^(\d)", r"d\t0\t\1", GUM).replace("# begin document GUM_x", "#begin document (x);"),
            "x",
            [7],
        ),
        (ANA.replace("; part 000", ""), "nw/d", [5, 2]),
        (SEMEVAL, "wsj_1294.mrg", [5, 2]),
        (json.dumps(BERT), "nw/d_0", [5, 2]),
        (json.dumps(PRECO), "nw/d_0", [5, 2]),
    ],
)
def test_documents_as_they_are_published(tmp_path, content, id, sentences):
    (document,) = read(tmp_path, content)
    assert document.words.words == ["Ana", "lost", "her", "keys", ".", "She", "did"]
    assert document.clusters == CLUSTERS
    assert (document.id, list(map(len, document.sentences))) == (id, sentences)
    assert document.speakers == ["-"] * 7
    assert set(document.ids.values()) == {id}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subtoken_map": [0] * 12}, "subtoken_map: found 12 numbers, expected 13"),
        ({"subtoken_map": [0, 0, 0, 1, 0, 3, 3, 3, 4, 4, 5, 6, 6]}, "subtoken_map: found 0 again"),
        ({"subtoken_map": "0"}, "subtoken_map: found 0"),
        ({"clusters": [[[12, 13]]]}, "clusters: found [12, 13]"),
        ({"speakers": [["-"]]}, "speakers: found 1, expected 13"),
        ({"speakers": 5}, "speakers: found 5"),
        ({"sentence_map": "x"}, "sentence_map: found x"),
    ],
)
def test_wrong_pieces(tmp_path, change, message):
    assert error(tmp_path, json.dumps(BERT | change)).startswith(f"line 1: {message}")


def test_pieces_without_their_words(tmp_path):
    pieces = {name: value for name, value in BERT.items() if name != "subtoken_map"}
    assert error(tmp_path, json.dumps(pieces)).startswith("line 1: sentences: found '[CLS]'")


@pytest.mark.parametrize("mention", [[2, 0, 1], [0, 1, 1], [0, 4, 6], [0, 1], "a"])
def test_wrong_mentions_of_preco(tmp_path, mention):
    message = error(tmp_path, json.dumps(PRECO | {"mention_clusters": [[mention]]}))
    assert message.startswith(f"line 1: mention_clusters: found {mention}")


def test_an_empty_speaker_is_unknown(tmp_path):
    """e2e-coref writes unknown speakers as empty strings."""
    nobody = JSON | {"speakers": [[""] * 5, ["B", ""]]}
    (document,) = read(tmp_path, json.dumps(nobody))
    assert document.speakers == ["-"] * 5 + ["B", "-"]
    (document,) = read(tmp_path, conll("a/-", speaker=""))
    assert document.speakers == ["-"]


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("clusters", [[[3, 2]]], "[3, 2]"),
        ("clusters", [[[6, 7]]], "[6, 7]"),
        ("clusters", [[[-1, 2]]], "[-1, 2]"),
        ("clusters", [[[1]]], "[1]"),
        ("clusters", [[[0, True]]], "[0, True]"),
        ("clusters", {"0": []}, "{'0': []}"),
        ("sentences", ["Ana lost"], "['Ana lost']"),
        ("sentences", 5, "5"),
        ("sentences", True, "True"),
        ("sentences", [["Ana", 5]], "[['Ana', 5]]"),
        ("sentences", [["Ana"], []], "none, or one without words"),
        ("sentences", [], "none"),
        ("speakers", [["-"] * 5], "1 sentences, expected 2"),
        ("speakers", [["-"] * 5, ["-"]], "1 in sentence 1, expected 2"),
        ("speakers", "Ana", "Ana"),
        ("doc_key", 7, "7"),
    ],
)
def test_wrong_values_of_json_lines(tmp_path, key, value, found):
    document = JSON | {key: value}
    message = error(tmp_path, "\n".join(map(json.dumps, [JSON, document])))
    assert message.startswith(f"line 2: {key}: found {found}")
    with pytest.raises(ConfigurationError):
        CorefDocument.of(**{name.replace("doc_key", "id"): each for name, each in document.items()})


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ([True, True, False], 'line 5: found no "clusters"'),
        ([False, True], 'line 3: found "clusters"'),
    ],
)
def test_all_documents_of_a_file_have_clusters_or_none_has(tmp_path, clusters, message):
    without = {name: value for name, value in JSON.items() if name != "clusters"}
    text = "\n\n".join(json.dumps(JSON if has_clusters else without) for has_clusters in clusters)
    found = input_error(lambda path: list(CorefReader().read(path)), tmp_path / "a", text)
    assert found.startswith(f"{tmp_path}/a, {message}")
    documents = read(tmp_path, "\n".join([json.dumps(without)] * 2))
    assert [document.clusters for document in documents] == [None, None]
