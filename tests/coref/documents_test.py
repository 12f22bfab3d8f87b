import json
import re

import pytest

from elmo_tasks.coref.documents import CorefDocument, name_of
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.data.formats.coreference import read_documents
from elmo_tasks.data.input_files import InputError


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
    path = tmp_path / "a"
    return [CorefDocument.from_record(record.values) for record in read_documents(path)]


def test_a_document(tmp_path):
    of_b = conll("Ana/(1) lost/- her/(2|(1) keys/2) ./-", "She/(1) did/-", speaker="B")
    document, part = read(tmp_path, of_b + conll("It/(1) rained/-", part=12))
    assert document.id == "nw/d_0"
    assert document.sentences == JSON["sentences"]
    assert document.speakers == ["B"] * 7
    assert document.clusters == CLUSTERS
    assert document.words.text == "Ana lost her keys . She did"
    assert len(document) == 7
    assert (part.id, part.clusters) == ("nw/d_12", [[(0, 0)]])


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


WORDS = ["Ana", "lost", "her", "keys", ".", "", "She", "did"]
CHAINS = ["(1)", "", "(2|(1)", "2)", "", "", "(1)", ""]
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
OF_MANY_COLUMNS = re.sub(r"(?m)^(\d)", r"d\t0\t\1", GUM).replace(
    "# begin document GUM_x", "#begin document (x);"
)
LITBANK_ROWS = [
    f"d\t0\t0\t{word}" + 8 * "\t_" + f"\t{chains}" if word else ""
    for word, chains in zip(WORDS, CHAINS, strict=True)
]
LITBANK = "\n".join(["#begin document (nw/d); part 0", *LITBANK_ROWS, "#end document"])
SEMEVAL_ROWS = [
    f"{number}\t{word}" + 13 * "\t_" + f"\t{chains or '_'}" if word else ""
    for number, word, chains in zip([1, 2, 3, 4, 5, 0, 1, 2], WORDS, CHAINS, strict=True)
]
SEMEVAL = "\n".join(["#begin document wsj_1294.mrg", *SEMEVAL_ROWS, "#end document wsj_1294.mrg"])
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
        (OF_MANY_COLUMNS, "x", [7]),
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


def conllu(*sentences, header=""):
    """Sentences of words with their brackets; a word `*` is an empty node."""
    lines = ["# newdoc id = d", *([f"# global.Entity = {header}"] if header else [])]
    for sentence in sentences:
        number = 0
        for cell in sentence.split():
            word, _, brackets = cell.partition("/")
            number += word != "*"
            entity = f"Entity={brackets}|SpaceAfter=No" if brackets else "_"
            id = f"{number}.1" if word == "*" else number
            lines.append("\t".join([str(id), word, word, "X", "_", "_", "0", "dep", "_", entity]))
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("header", "sentences"),
    [
        ("", ["Ana/(e1) lost her/(e2(e1) keys/e2) .", "She/(e1) did"]),
        ("eid-etype-head", ["Ana/(e1-person-1) lost her/(e2-object-2(e1--1) keys/e2) .", "She/(e1--1) did"]),
        ("GRP-etype", ["Ana/(1-person) lost her/(2-object(1-person) keys/2) .", "She/(1-person) did"]),
        (
            "entity-GRP-MIN",
            ["Ana/(person-1-1) lost her/(object-2-2(person-1-1) keys/2) .", "She/(person-1-1) did"],
        ),
        ("etype-eid", ["Ana/(person-1) lost her/(object-2(person-1) keys/object-2) .", "She/(person-1) did"]),
        (
            "eid-etype",
            ["*/(e1-person) Ana/(e1-person) */(e2-object lost/e2) her/(e2(e1) keys */e2) .", "She/(e1) did"],
        ),
    ],
)
def test_brackets_of_conllu(tmp_path, header, sentences):
    """The header names the fields of an opening bracket, also of documents after the first."""
    content = conllu(*sentences, header=header)
    documents = read(tmp_path, content + "\n" + conllu(*sentences))
    clusters = [CLUSTERS[0], [(1, 1), (2, 3)]] if "*" in content else CLUSTERS
    for document in documents:
        assert document.sentences == JSON["sentences"]
        assert document.clusters == clusters
        assert (document.id, document.ids) == ("d", {"doc_key": "d"})


def test_mentions_in_several_parts_and_without_words_are_counted(tmp_path, caplog):
    parts = "Ana/(e1[1/3]-x(e2-x) and/e1[1/3]) her/(e1-x) dog/(e1[2/3](e3[1/2]) ran/e1[2/3])"
    sentence = f"{parts} */(e2) so/(e1[3/3])(e3[2/2])"
    (tmp_path / "a").write_text(conllu(sentence, header="eid-etype"))
    (instance,) = CorefReader().read(str(tmp_path / "a"))
    assert instance["metadata"].metadata.clusters == [[(0, 0)], [(0, 5), (2, 2)], [(3, 5)]]
    assert re.search(r"a, line 3: .*e1\[1/3\].* in several parts .*: 2\)", caplog.text)
    assert re.search(r"a, line 8: .*empty nodes .*: 1\)", caplog.text)


@pytest.mark.parametrize(
    ("header", "brackets", "value"),
    [
        ("etype-identity", "(person-Ana)", "etype-identity"),
        ("eid", "(e1)e2)", "'e2)'"),
        ("eid", "e1", "'e1'"),
    ],
)
def test_wrong_brackets_of_conllu(tmp_path, header, brackets, value):
    with pytest.raises(InputError, match=re.escape(value)) as error:
        read(tmp_path, conllu(f"Ana/{brackets}", header=header))
    assert (error.value.where, error.value.line) == (str(tmp_path / "a"), 3)


def test_an_empty_speaker_is_unknown(tmp_path):
    """e2e-coref writes unknown speakers as empty strings."""
    nobody = JSON | {"speakers": [[""] * 5, ["B", ""]]}
    (document,) = read(tmp_path, json.dumps(nobody))
    assert document.speakers == ["-"] * 5 + ["B", "-"]
    (document,) = read(tmp_path, conll("a/-", speaker=""))
    assert document.speakers == ["-"]


@pytest.mark.parametrize(("clusters", "line"), [([True, True, False], 5), ([False, True], 3)])
def test_all_documents_of_a_file_have_clusters_or_none_has(tmp_path, clusters, line):
    without = {name: value for name, value in JSON.items() if name != "clusters"}
    (tmp_path / "a").write_text("\n\n".join(json.dumps(JSON if each else without) for each in clusters))
    with pytest.raises(InputError) as error:
        list(CorefReader().read(str(tmp_path / "a")))
    assert (error.value.where, error.value.line) == (str(tmp_path / "a"), line)
    documents = read(tmp_path, "\n".join([json.dumps(without)] * 2))
    assert [document.clusters for document in documents] == [None, None]


@pytest.mark.parametrize(
    ("mentions", "name"),
    [
        (["She", "The judge", "Ana Silva's", "Ana"], "Ana Silva"),
        (["his sister", "her"], "his sister"),
        (["It"], "It"),
    ],
)
def test_the_name_of_a_cluster(mentions, name):
    assert name_of(mentions) == name
