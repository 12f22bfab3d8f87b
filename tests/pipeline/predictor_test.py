"""Records to results: their order, batches and errors, and the checks of the fields of an input."""

import json

import pytest
import spacy
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_tasks.pipeline.predictor import (
    InputRecord,
    SentencePredictor,
    TextPredictor,
    require_text,
)
from elmo_tasks.pipeline.stream import json_records, predict
from elmo_tasks.sst.reader import SstReader
from tests.errors import mentions
from tests.pipeline.fake import Counting, Doubled, Doubling

EMPTY = {"doubled": None}


@pytest.fixture
def predictor():
    return Doubling()


def inputs_of(*texts):
    return [{"text": text} for text in texts]


@pytest.mark.parametrize(
    ("batch_size", "stateful", "read"),
    [(None, False, [512, 512, 600]), (7, False, [7, 14, 600]), (None, True, [1, 8, 600])],
)
def test_records_that_are_read_ahead(predictor, batch_size, stateful, read):
    """A predictor reads hundreds, but no more than it is told, and one where the batch matters."""
    predictor._model.stateful = stateful
    taken = []
    records = (taken.append(i) or InputRecord({"text": "a" * (1 + i % 2)}) for i in range(600))
    results = []

    def sink(record, result):
        results.append((len(taken), result))

    assert predict(records, predictor, sink, batch_size) == 600
    assert [result["doubled"] for _, result in results] == [2, 4] * 300
    assert [results[i][0] for i in (0, 7, 599)] == read


def test_a_stream_keeps_few_records(predictor):
    predictor.max_group = 3
    taken = []
    records = (taken.append(text) or InputRecord({"text": text}) for text in ["a", "bb", "", "c", "ddd", "e"])
    results = predictor.stream(records)
    assert [next(results).doubled for _ in range(3)] == [2, 4, None]
    assert len(taken) == 3
    assert next(results).doubled == 2
    with pytest.raises(RuntimeError, match="three"):
        next(results)


def test_results_before_a_source_that_fails_come_out(predictor):
    def records():
        yield from map(InputRecord, inputs_of("a", "bb"))
        raise OSError("the connection is lost")

    results = predictor.stream(records())
    assert [next(results).doubled for _ in range(2)] == [2, 4]
    with pytest.raises(OSError, match="lost"):
        next(results)


def test_results_in_their_order(predictor):
    inputs = inputs_of("a", "", "bcde", "")
    assert predictor.predict_batch_json([]) == []
    assert predictor.predict_json({"text": ""}) == EMPTY
    assert predictor.batches == []
    assert predictor.predict_batch_json(iter(inputs)) == [{"doubled": 2}, EMPTY, {"doubled": 8}, EMPTY]
    assert predictor.batches == [2]
    assert predictor.predict_json(inputs[2]) == {"doubled": 8}
    assert predictor.batches == [2, 1]


@pytest.mark.parametrize("error", [IndexError, MemoryError])
def test_results_before_a_line_that_breaks_the_model_come_out(predictor, error):
    predictor.error = error
    lines, results = [b'{"text": "a"}', b'{"text": "bcd"}', b'{"text": "e"}'], []
    with pytest.raises(ConfigurationError, match=rf"^in, line 2: {error.__name__}: three"):
        predict(json_records(predictor, lines, "in"), predictor, lambda _, result: results.append(result))
    assert results == [{"doubled": 2}]


def test_an_object_has_no_line(predictor):
    assert predictor.load_line('{"text": "a", "b": 1}\n') == {"text": "a", "b": 1}
    with pytest.raises(ConfigurationError, match=r'^the input needs "text": a string; it has no fields$'):
        predictor.predict_json({})
    with pytest.raises(RuntimeError, match="three"):
        predictor.predict_json({"text": "abc"})
    with pytest.raises(ConfigurationError, match="the predictor reads text, not 2 texts"):
        predictor.predict("a", "b")
    with pytest.raises(ConfigurationError, match="the input has no words"):
        predictor.json_to_labeled_instances({"text": ""})


def test_each_record_has_its_result_or_its_error(predictor):
    records = list(map(InputRecord, inputs_of("aa", "", 1, "abcdef", "abc", "a")))
    results = predictor.results(records, max_tokens=5)
    assert [results[i] for i in (0, 1, 5)] == [Doubled(4), Doubled(None), Doubled(2)]
    assert [type(error) for error in results[2:5]] == [ConfigurationError, ConfigurationError, RuntimeError]
    assert mentions(str(results[3]), "6", "5")


def test_batches_have_a_limit_of_tokens(predictor):
    texts = ["aa", "aa", "a", "aaaa", "a", "aaaaa"]
    results = predictor.results(list(map(InputRecord, inputs_of(*texts))), max_tokens=5)
    assert results == [Doubled(2 * len(text)) for text in texts]
    # A batch has as many tokens as its longest text, times its texts
    assert predictor.batches == [2, 2, 1, 1]


class Texts(Counting, TextPredictor):
    """Twice the number of words."""

    def read(self, json_dict):
        return self._tokenize(json_dict["text"]).words


class Sentences(Counting, SentencePredictor):
    """Twice the number of words."""

    def read(self, json_dict):
        return super().read(json_dict).words


def test_the_tokenizer_is_that_of_blank_english_or_of_a_model(tmp_path):
    text = "Don't ask."
    assert Texts().predict_json({"text": text}) == {"doubled": 2 * len(spacy.blank("en")(text))}
    nlp = spacy.blank("en")
    # Every character is a word.
    nlp.tokenizer = spacy.tokenizer.Tokenizer(
        nlp.vocab, infix_finditer=spacy.util.compile_infix_regex(["."]).finditer
    )
    nlp.to_disk(tmp_path / "characters")
    by_characters = Texts(spacy_model=str(tmp_path / "characters"))
    assert by_characters.predict_json({"text": text}) == {"doubled": 2 * len(text.replace(" ", ""))}
    with pytest.raises(ConfigurationError, match=r"spaCy.*'xx_none'"):
        Texts(spacy_model="xx_none")


@pytest.mark.parametrize(
    ("words", "of_the_reader", "of_the_predictor", "tokens"),
    [
        (["他", "们", "在", "NBA"], {}, {}, 7),
        (["他", "们", "在"], {}, {"tokenizer": "whitespace"}, 2),
        (["他", "们", "在"], {"tokenizer": "whitespace"}, {}, 2),
        (["他们", "在", "北京", "NBA"], {}, {}, 3),
        (["they", "are"], {"tokenizer": "characters"}, {}, 7),
    ],
)
def test_text_is_split_as_the_data_of_the_archive(words, of_the_reader, of_the_predictor, tokens):
    vocab = Vocabulary(tokens_to_add={"tokens": words})
    of = Sentences(reader=SstReader(**of_the_reader), vocab=vocab, **of_the_predictor)
    assert of.predict("他们在北京 a。") == {"doubled": 2 * tokens}


def test_words_know_their_place():
    predictor, text = Sentences(), "  Ana  didn't\tfly. "
    words = SentencePredictor.read(predictor, {"sentence": text})
    assert (words.text, words.words) == (text, ["Ana", "did", "n't", "fly", "."])
    assert [text[start:end] for start, end in words.offsets] == words.words
    tokens = ["Ana", "", "didn't fly", "."]
    words = SentencePredictor.read(predictor, {"tokens": tokens, "sentence": "another"})
    assert (words.text, words.words) == ("Ana  didn't fly .", tokens)
    assert [words.text[start:end] for start, end in words.offsets] == tokens


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, []),
        ({"a": 1, "id": 2}, ['"a", "id"']),
        ({"text": 5}, ['"text"', "5"]),
        ({"text": b"a"}, ['"text"', "b'a'"]),
        ({"words": "a"}, ['"words"', '"a"']),
        ({"words": ["a", 5]}, ['"words"', "5", "position 1"]),
    ],
)
def test_neither_a_text_nor_its_words(fields, names):
    with pytest.raises(ConfigurationError) as caught:
        require_text(fields, "text", "words")
    assert mentions(str(caught.value), *names)
    assert require_text(json.loads('{"text": "a b"}'), "text", "words") == "a b"
    assert require_text({"words": ("a", "b")}, "text", "words") == ["a", "b"]
