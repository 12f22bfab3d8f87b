import json

import pytest

from elmo_tasks.coref.predictor import CorefPredictor
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.pipeline.command import predict_file
from tests.pipeline.archives import predictor_of
from tests.records import json_lines

TEXT = "Ana Silva lost her keys.  She asked the ferryman.\n\nA heading\n\nHe had   seen them, she said."
FIELDS = {"tokens", "clusters", "mentions", "marked", "pronouns", "resolved"}


@pytest.fixture(scope="module")
def predictor() -> CorefPredictor:
    return predictor_of("coref")


def test_a_document(predictor):
    result = predictor.predict(TEXT)
    assert isinstance(predictor, CorefPredictor)
    assert json.loads(json.dumps(result)) == result
    assert set(result) == FIELDS
    assert result["tokens"][:6] == ["Ana", "Silva", "lost", "her", "keys", "."]
    assert result["clusters"]
    for cluster in result["clusters"]:
        assert len(cluster) > 1
        for first, last in cluster:
            assert 0 <= first <= last < len(result["tokens"])
    offsets = predictor.read({"document": TEXT}).words.offsets
    for cluster, mentions in zip(result["clusters"], result["mentions"], strict=True):
        for (first, last), mention in zip(cluster, mentions, strict=True):
            start, end = mention["char_start"], mention["char_end"]
            assert (start, end) == (offsets[first][0], offsets[last][1])
            assert mention["text"] == TEXT[start:end]
    unmarked = result["marked"].replace("]", "")
    for number in range(len(result["clusters"])):
        unmarked = unmarked.replace(f"[{number} ", "")
    assert unmarked == TEXT


def test_sentences_of_a_document_and_of_tokens(predictor):
    document = predictor.read({"document": TEXT})
    assert [" ".join(sentence) for sentence in document.sentences] == [
        "Ana Silva lost her keys .",
        "She asked the ferryman .",
        "A heading",
        "He had seen them , she said .",
    ]
    assert predictor.read({"document": TEXT.replace("\n", "\r\n")}).sentences == document.sentences
    starts = [TEXT[start:end] for start, end in document.words.offsets]
    assert starts == document.words.words == [word for sentence in document.sentences for word in sentence]
    tokens = predictor.read({"tokens": ["Ana", "ran", "!", '"', "He", "", "fell", "."]})
    assert tokens.sentences == [["Ana", "ran", "!", '"'], ["He", "", "fell", "."]]


def test_sentences_with_speakers_and_genre(predictor):
    given = {"sentences": [["I", "ran"], ["You", "did", "?"]], "speakers": [["A"] * 2, ["B"] * 3]}
    document = predictor.read(given | {"doc_key": "tc/1", "clusters": "whatever"})
    assert (document.id, document.speakers, document.clusters) == ("tc/1", list("AABBB"), None)
    assert predictor.predict_json(given)["tokens"] == ["I", "ran", "You", "did", "?"]


def test_lines_repeat_the_ids_of_a_file(predictor, tmp_path):
    reader = CorefReader(token_indexers=predictor._dataset_reader.token_indexers)
    documents = [{"doc_key": "nw/1", "sentences": [["a"]]}, {"id": 2, "sentences": [["b"]]}]
    documents.append({"sentences": [["c"]]})
    (tmp_path / "a").write_text(json_lines(*documents))
    files = [str(tmp_path / name) for name in ("a", "out")]
    predict_file(CorefPredictor(predictor._model, reader), *files, batch_size=2, by_reader=True)
    results = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    ids = [{name: result[name] for name in ("doc_key", "id") if name in result} for result in results]
    assert ids == [{"doc_key": "nw/1"}, {"id": 2}, {}]
    assert [result["tokens"] for result in results] == [["a"], ["b"], ["c"]]
