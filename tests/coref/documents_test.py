import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.files import bundled
from elmo_tasks.coref.documents import CorefDocument, read_documents
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


def read(tmp_path, text):
    (tmp_path / "some.conll").write_text(text, encoding="utf-8")
    return list(read_documents(tmp_path / "some.conll"))


def clusters(tmp_path, *sentences):
    (document,) = read(tmp_path, conll(*sentences))
    return document.clusters


def error(tmp_path, text):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "some.conll"))
    return message.removeprefix(str(tmp_path / "some.conll"))


def test_a_document(tmp_path):
    (document,) = read(tmp_path, conll("Ana/(1) lost/- her/(2|(1) keys/2) ./-", "She/(1) did/-", speaker="B"))
    assert document.id == "nw/d_0"
    assert document.sentences == [["Ana", "lost", "her", "keys", "."], ["She", "did"]]
    assert document.speakers == ["B"] * 7
    # [Ana] lost [[her] keys] . [She] did
    assert document.clusters == [[(0, 0), (2, 2), (5, 5)], [(2, 3)]]
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
    assert clusters(tmp_path, *sentences) == expected


def test_clusters_with_a_mention_in_common_are_joined(tmp_path):
    (document,) = read(tmp_path, conll("a/(1)|(2) b/(1) c/(2) d/(3)|(3)"))
    assert document.clusters == [[(0, 0), (1, 1), (2, 2)], [(3, 3)]]
    assert document.joined == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff\n\n" + text + "\n \n",
        lambda text: text.replace("\t", "   "),
        lambda text: text.replace("\n\n", "\n\n\n"),
        lambda text: text.replace("\n\n#end", "\n#end"),
        lambda text: text.replace("\t*\t", "\t*\t*\t(ARG0*)\t"),  # columns of predicates
        lambda text: text.replace("part 000", "part 0"),
        lambda text: text.replace("\t.\t", "\t/.\t"),
    ],
)
def test_what_makes_no_difference(tmp_path, change):
    assert read(tmp_path, change(ANA)) == read(tmp_path, ANA)


def test_words_between_tabs_may_hold_blanks_or_nothing(tmp_path):
    """OntoGUM has an empty word; positions count it."""
    (document,) = read(tmp_path, ANA.replace("\tkeys\t", "\tcar\u00a0 keys\t").replace("\t.\t", "\t\t"))
    assert document.sentences[0] == ["Ana", "lost", "her", "car\u00a0 keys", ""]
    assert document.clusters == [[(0, 0), (2, 2), (5, 5)], [(2, 3)]]


def test_words_between_blanks_may_hold_other_white_space(tmp_path):
    (document,) = read(tmp_path, ANA.replace("keys", "car\u00a0keys").replace("\t", "   "))
    assert document.sentences[0] == ["Ana", "lost", "her", "car\u00a0keys", "."]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            conll("a/(1 b/(2", "c/2)"),
            ", line 2: found the start of a mention, '(1', that is not closed, expected '1)' ",
        ),
        (conll("a/- b/1) c/(1"), ", line 3: found the end of a mention, '1)', expected '(1' before it"),
        (conll("a/(1) b/(1)|1)"), ", line 3: found the end of a mention, '1)'"),
        (
            conll("a/1"),
            ", line 2: found the chains '1', expected '-', or '(ID', 'ID)' or '(ID)', joined by '|'",
        ),
        (conll("a/(1||(2)"), ", line 2: found the chains ''"),
        (conll("a/()"), ", line 2: found the chains '()'"),
        (ANA.replace("\t-\t*\t", "\t", 1), ", line 2: found 10 columns in 'd\\t0\\t0\\tAna"),
        (
            ANA.replace("#end document\n", ""),
            ", line 10: found the end of the file, expected '#end document'",
        ),
        (
            ANA.replace("#begin document", "#begin"),
            ", line 1: found '#begin (nw/d); part 000', expected '#begin doc",
        ),
        (
            ANA.replace("#end document\n", "") + ANA,
            ", line 11: found #begin document (nw/d); part 000, expected",
        ),
        (ANA + "#end document", ", line 12: found '#end document', expected '#begin document (ID)"),
        (conll(), ", line 2: found a document without tokens, expected one or more"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    assert message in error(tmp_path, text)


JSON = {
    "doc_key": "nw/d_0",
    "sentences": [["Ana", "lost", "her", "keys", "."], ["She", "did"]],
    "speakers": [["-"] * 5, ["-"] * 2],
    "clusters": [[[5, 5], [0, 0], [2, 2]], [[2, 3]]],
}


def test_json_lines(tmp_path):
    both = read(tmp_path, "\n" + "\n\n".join([json.dumps(JSON)] * 2))
    assert both == read(tmp_path, ANA) * 2
    (bare,) = read(tmp_path, json.dumps({"sentences": JSON["sentences"]}))
    assert (bare.id, bare.speakers, bare.clusters) == ("", ["-"] * 7, None)


def test_an_empty_speaker_is_unknown(tmp_path):
    """So e2e-coref writes documents whose speakers it does not know."""
    nobody = JSON | {"speakers": [[""] * 5, ["B", ""]]}
    (document,) = read(tmp_path, json.dumps(nobody))
    assert document.speakers == ["-"] * 5 + ["B", "-"]
    (document,) = read(tmp_path, conll("a/-", speaker=""))
    assert document.speakers == ["-"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": [[[3, 2]]]}, "clusters: found [3, 2], a mention that ends before it starts"),
        ({"clusters": [[[6, 7]]]}, "clusters: found [6, 7], expected tokens of the document, from 0 to 6"),
        ({"clusters": [[[-1, 2]]]}, "clusters: found [-1, 2], expected"),
        ({"clusters": [[[1]]]}, "clusters: found [1], expected [first token, last token]"),
        ({"clusters": [[[0, True]]]}, "clusters: found [0, True], expected [first"),
        ({"clusters": {"0": []}}, "clusters: found {'0': []}, expected lists of lists of spans"),
        ({"sentences": ["Ana lost"]}, "sentences: found ['Ana lost'], expected a list of lists of strings"),
        ({"sentences": [["Ana", 5]]}, "sentences: found [['Ana', 5]], expected"),
        ({"sentences": [["Ana"], []]}, "sentences: found none, or one without words; expected words in each"),
        ({"sentences": []}, "sentences: found none"),
        ({"speakers": [["-"] * 5]}, "speakers: found 1 sentences, expected 2"),
        ({"speakers": [["-"] * 5, ["-"]]}, "speakers: found 1 in sentence 1, expected 2"),
        ({"speakers": "Ana"}, "speakers: found Ana, expected a list"),
        ({"doc_key": 7}, "doc_key: found 7, expected a string"),
    ],
)
def test_errors_of_json_lines(tmp_path, change, message):
    text = "\n".join(map(json.dumps, [JSON, JSON | change]))
    assert error(tmp_path, text).startswith(f", line 2: {message}")
    with pytest.raises(ConfigurationError):
        CorefDocument.of(**{name.replace("doc_key", "id"): value for name, value in (JSON | change).items()})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'a'", "found no JSON (Expecting property name"),
        ("[1]", "found '[1]', expected a JSON object with \"sentences\""),
        ('{"tokens": []}', 'expected a JSON object with "sentences"'),
    ],
)
def test_what_is_no_document_in_json_lines(tmp_path, line, message):
    found = error(tmp_path, json.dumps(JSON) + "\n" + line)
    assert found.startswith(", line 2: ")
    assert message in found


def test_fixtures_are_as_their_card_says():
    card = bundled("fixtures/coref/README.md").read_text()
    for name in ("train", "dev"):
        documents = list(read_documents(bundled(f"fixtures/coref/{name}.conll")))
        counts = (
            len(documents),
            sum(len(document.sentences) for document in documents),
            sum(map(len, documents)),
            sum(len(document.clusters) for document in documents),
            sum(len(cluster) for document in documents for cluster in document.clusters),
        )
        assert f"`{name}.conll` {' / '.join(map(str, counts))}" in card
        assert not any(document.joined for document in documents)


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ([True, True, False], 'line 5: found no "clusters", expected some, as in line 1'),
        ([False, True], 'line 3: found "clusters", expected none, as in line 1'),
    ],
)
def test_all_documents_of_a_file_have_clusters_or_none_has(tmp_path, clusters, message):
    without = {name: value for name, value in JSON.items() if name != "clusters"}
    text = "\n\n".join(json.dumps(JSON if has_clusters else without) for has_clusters in clusters)
    assert error(tmp_path, text) == f", {message}"
    (tmp_path / "none").write_text("\n".join([json.dumps(without)] * 2))
    assert [document.clusters for document in read_documents(tmp_path / "none")] == [None, None]
