import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.classification import ClassificationPredictor
from elmo_tasks.common.files import bundled


def predictor(name):
    settings = Params.from_file(str(bundled(f"training_configs/{name}.jsonnet"))).as_dict()
    reader = DatasetReader.from_params(Params(settings["dataset_reader"]))
    vocab = Vocabulary.from_instances(reader.read(settings["train_data_path"]))
    settings["model"]["hidden_sizes"] = [4]
    torch.manual_seed(1)
    model = Model.from_params(Params(settings["model"]), vocab=vocab).eval()
    return Predictor.by_name(model.default_predictor)(model, reader)


@pytest.fixture(scope="module")
def topics() -> ClassificationPredictor:
    return predictor("klue_tc")


@pytest.fixture(scope="module")
def paraphrases() -> ClassificationPredictor:
    return predictor("mrpc")


def test_sentence(topics):
    result = topics.predict("새 앱, 보안 강화")
    assert result["sentence1_tokens"] == ["새", "앱", ",", "보안", "강화"]
    assert list(result["probabilities"]) == topics._model.labels
    assert sum(result["probabilities"].values()) == pytest.approx(1)
    assert result["label"] == max(result["probabilities"], key=result["probabilities"].get)
    assert topics.predict_json({"tokens": result["sentence1_tokens"]}) == result


def test_pair(paraphrases):
    result = paraphrases.predict("It's here.", 'He said "no".')
    assert result["sentence1_tokens"] == ["It", "'s", "here", "."]
    assert result["sentence2_tokens"] == ["He", "said", '"', "no", '"', "."]
    assert set(result["probabilities"]) == {"different", "paraphrase"}
    words = {name: result[name] for name in ("sentence1_tokens", "sentence2_tokens")}
    assert paraphrases.predict_json(words) == result


def test_no_words_have_no_label(topics, paraphrases):
    empty = {"label": None, "probabilities": {}}
    assert topics.predict(" ") == {"sentence1_tokens": [], **empty}
    assert paraphrases.predict("A b", "") == {
        "sentence1_tokens": ["A", "b"],
        "sentence2_tokens": [],
        **empty,
    }


@pytest.mark.parametrize(
    ("which", "inputs", "message"),
    [
        (
            "topics",
            {},
            'found the fields: none; expected "sentence": a string, or "tokens": a list of strings',
        ),
        ("topics", {"sentence": 5}, '"sentence" is 5; expected'),
        ("paraphrases", {"sentence1": "a"}, 'found the fields: "sentence1"; expected "sentence2": a string'),
        (
            "paraphrases",
            {"sentence1_tokens": [1], "sentence2": "a"},
            '"sentence1_tokens" has 1 at position 0',
        ),
    ],
)
def test_wrong_fields(which, inputs, message, request):
    with pytest.raises(ConfigurationError) as error:
        request.getfixturevalue(which).predict_json(inputs)
    assert message in str(error.value)
