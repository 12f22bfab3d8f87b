import json
from pathlib import Path

import pytest
import spacy
from allennlp.common.checks import ConfigurationError

from elmo_tasks.pipeline.command import predict_file
from elmo_tasks.pipeline.predictor import InputRecord
from elmo_tasks.srl import predictor as module
from elmo_tasks.srl.metric import from_tags
from elmo_tasks.srl.predictor import SrlPredictor
from elmo_tasks.srl.reader import SrlReader
from tests.errors import error_of, mentions
from tests.pipeline.archives import predictor_of
from tests.records import json_lines

SENTENCE = "Anna sold the bicycle and left."


@pytest.fixture(scope="module")
def predictor() -> SrlPredictor:
    return predictor_of("srl")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory) -> str:
    """A spaCy model that knows three words."""
    folder = tmp_path_factory.mktemp("spacy") / "en_three_words"
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("attribute_ruler")
    for word, attributes in (
        ("sold", {"POS": "VERB"}),
        ("had", {"POS": "AUX", "DEP": "aux"}),
        ("was", {"POS": "AUX", "DEP": "ROOT"}),
    ):
        ruler.add([[{"LOWER": word}]], attributes)
    nlp.to_disk(folder)
    return str(folder)


def another(predictor, **options):
    return SrlPredictor(predictor._model, predictor._dataset_reader, **options)


def test_arguments_have_their_text_and_can_be_written_as_json(predictor):
    assert isinstance(predictor, SrlPredictor)
    result = predictor.predict_json({"sentence": SENTENCE, "predicates": [1, 5]})
    assert json.loads(json.dumps(result)) == result
    words = result["tokens"]
    assert words == ["Anna", "sold", "the", "bicycle", "and", "left", "."]
    assert [each["predicate"] for each in result["predicates"]] == ["sold", "left"]
    for each in result["predicates"]:
        arguments = [(argument["label"], argument["spans"]) for argument in each["arguments"]]
        assert arguments == [
            (label, [list(span) for span in spans]) for label, spans in from_tags(each["tags"])
        ]
        assert len(each["tags"]) == len(words)
        assert SENTENCE[each["char_start"] : each["char_end"]] == each["predicate"]
        for argument in each["arguments"]:
            parts = [SENTENCE[start:end] for start, end in argument["char_spans"]]
            assert argument["text"] == " ... ".join(parts)


TWO_SENTENCES = '"Did it  rain?" he asked. Anna sold the bicycle and left.'
BEFORE = 9


def test_each_sentence_of_a_text_is_read_by_itself(predictor):
    result = predictor.predict_json({"sentence": TWO_SENTENCES, "predicates": [3, BEFORE + 1]})
    alone = [
        predictor.predict_json({"sentence": TWO_SENTENCES.partition(" Anna")[0], "predicates": [3]}),
        predictor.predict_json({"sentence": SENTENCE, "predicates": [1]}),
    ]
    assert result["tokens"] == alone[0]["tokens"] + alone[1]["tokens"]
    first, second = (one["predicates"][0] for one in alone)
    assert result["predicates"][0] == first | {"tags": first["tags"] + 7 * ["O"]}
    found = result["predicates"][1]
    assert found["index"] == BEFORE + second["index"]
    assert found["tags"] == BEFORE * ["O"] + second["tags"]
    assert found["description"] == second["description"]
    assert TWO_SENTENCES[found["char_start"] : found["char_end"]] == "sold"
    for argument, other in zip(found["arguments"], second["arguments"], strict=True):
        assert argument["text"] == other["text"]
        assert [[start - BEFORE, end - BEFORE] for start, end in argument["spans"]] == other["spans"]
    # Tokens are one sentence, whatever they are.
    assert predictor.read({"sentence": TWO_SENTENCES, "predicates": []}).starts == [0, BEFORE]
    assert predictor.read({"tokens": result["tokens"], "predicates": []}).starts == [0]


def test_predicates_of_a_batch_are_found_together_and_as_one_by_one(predictor):
    finder = another(predictor)
    assert finder._finder is not None
    inputs = [
        {"sentence": SENTENCE},
        {"tokens": ["Rain", "again", "!"]},
        {"tokens": [1]},
        {"sentence": ""},
        {"sentence": "They said that it had rained."},
        {"sentence": SENTENCE, "predicates": [3]},
    ]
    calls = []
    forward = finder._finder._model.register_forward_hook(lambda *arguments: calls.append(1))
    together = finder.results(list(map(InputRecord, inputs)), 1000)
    forward.remove()
    assert len(calls) == 1
    predicates = [
        answer if isinstance(answer, Exception) else [each.text for each in answer.value]
        for answer in together
    ]
    assert [predicates[0], *predicates[3:]] == [["sold", "left"], [], ["said", "had", "rained"], ["bicycle"]]
    assert isinstance(predicates[2], ConfigurationError)
    alone = [finder.results([InputRecord(json_dict)], 1000)[0] for json_dict in inputs]
    for one, other in zip(together, alone, strict=True):
        assert str(one) == str(other)


def test_the_result_can_be_read(predictor, tmp_path):
    inputs = [{"sentence": SENTENCE, "predicates": [1, 5]}, {"tokens": ["Rain", "again"], "predicates": []}]
    results = list(predictor.predict_batch_json(inputs))
    assert results[1] == inputs[1]
    (tmp_path / "a.jsonl").write_text(json_lines(*results))
    instances = list(SrlReader(keep_without_predicates=True).read(str(tmp_path / "a.jsonl")))
    assert [each["metadata"].metadata.predicate for each in instances] == [1, 5, None]
    for instance, each in zip(instances, results[0]["predicates"], strict=False):
        tags = list(each["tags"])
        if tags[each["index"]] == "O":  # then it is read as V
            tags[each["index"]] = "B-V"
        assert from_tags(instance["metadata"].metadata.gold_tags) == from_tags(tags)


def test_no_instance_is_made_of_too_many_predicates(predictor, monkeypatch):
    """An instance each would take time and memory that grow with the square of the words."""
    words = {"tokens": ["Ana", "came", "."], "predicates": [1] * 16}
    (result,) = predictor.results([InputRecord(words)], 3)
    assert len(result.predicates) == 16
    monkeypatch.setattr(predictor, "to_instance", None)
    words["predicates"] = [1] * 17
    (error,) = predictor.results([InputRecord(words)], 3)
    assert mentions(str(error), "51", "48")


def test_verbs_that_a_model_finds(predictor, tagger, monkeypatch):
    def indices(found, inputs):
        return [each["index"] for each in found.predict_json(inputs)["predicates"]]

    with_tagger = another(predictor, spacy_model=tagger)
    assert indices(with_tagger, {"sentence": SENTENCE}) == [1]
    assert indices(with_tagger, {"tokens": ["It", "was", "late", "and", "he", "had", "sold", "it"]}) == [1, 6]
    assert indices(with_tagger, {"tokens": ["", "He", "sold", "it"]}) == [2]
    assert with_tagger.predict("") == {"tokens": [], "predicates": []}
    # Without the trained archive, an installed model is found by itself.
    monkeypatch.setattr(SrlPredictor, "open_finder", staticmethod(lambda: None))
    monkeypatch.setattr(spacy.util, "get_installed_models", lambda: ["xx_other", tagger])
    monkeypatch.setattr(module, "_ENGLISH", tagger[:3])
    assert indices(another(predictor), {"sentence": SENTENCE}) == [1]


def test_no_model_that_finds_verbs(predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(spacy.util, "get_installed_models", lambda: ["de_core_news_sm"])
    monkeypatch.setattr(SrlPredictor, "open_finder", staticmethod(lambda: None))
    message = error_of(ConfigurationError, another(predictor).predict, SENTENCE)
    assert '"predicates"' in message
    assert "en_core_web_sm" in message
    (tmp_path / "a").write_text("Anna\nsold\nit\n")
    (result,) = lines_of(SrlPredictor(predictor._model, reader_of(predictor)), tmp_path / "a", 1)
    assert "spacy" in result["no_prediction"]
    spacy.blank("en").to_disk(tmp_path / "en_blank")
    with pytest.raises(ConfigurationError, match="parts of speech"):
        another(predictor, spacy_model=str(tmp_path / "en_blank")).predict(SENTENCE)


def reader_of(predictor):
    return SrlReader(token_indexers=predictor._dataset_reader.token_indexers)


def lines_of(predictor, path, batch_size):
    predict_file(predictor, str(path), f"{path}.out", batch_size=batch_size, by_reader=True)
    return [json.loads(line) for line in Path(f"{path}.out").read_text().splitlines()]


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_each_sentence_of_a_file_has_a_line(predictor, tmp_path, tagger, batch_size):
    """With a dataset reader: all predicates of a sentence in one line, or the reason why there is none."""
    arguments = [{"label": "V", "spans": [[1, 2]]}]
    predicates = [{"index": index, "arguments": arguments} for index in (1, 0)]
    sentences = [
        {"id": "a", "tokens": ["She", "sold", "it"], "predicates": predicates},
        {"id": "b", "tokens": ["Gulls"], "predicates": []},
        {"id": "c", "tokens": ["Anna", "sold", "it"]},
        {"id": "d", "tokens": ["Gulls", "!"]},
    ]
    (tmp_path / "a").write_text(json_lines(*sentences))
    finder = SrlPredictor(predictor._model, reader_of(predictor), spacy_model=tagger)
    results = lines_of(finder, tmp_path / "a", batch_size)
    assert [result["id"] for result in results] == list("abcd")
    assert [result["tokens"] for result in results] == [each["tokens"] for each in sentences]
    indices = [[each["index"] for each in result["predicates"]] for result in results]
    assert indices == [[1, 0], [], [1], []]
    assert ["no_prediction" in result for result in results] == [not each for each in indices]
    alone = predictor.predict_json({"tokens": ["She", "sold", "it"], "predicates": [1, 0]})
    assert results[0]["predicates"] == alone["predicates"]


def test_the_trained_archive_finds_predicates_whatever_spacy_models_are_installed(predictor, monkeypatch):
    monkeypatch.setattr("spacy.util.get_installed_models", lambda: ["en_core_web_sm"])
    found = another(predictor).predict("Ana Silva sold her car .")
    assert [one["predicate"] for one in found["predicates"]] == ["sold"]


def test_a_limit_counts_the_words_and_not_their_readings(predictor):
    texts = [
        {"sentence": "Anna sold it and left. " * 3, "predicates": [1, 4, 7, 10, 13, 16]},
        {"sentence": "Anna sold it. " * 6},
    ]
    results = predictor.results(list(map(InputRecord, texts)), max_tokens=18)
    assert len(results[0].predicates) == 6
    assert mentions(str(results[1]), "24", "18")
