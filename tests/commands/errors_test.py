"""`elmo errors`: which mistakes are found, and how they are shown."""

from collections import Counter

from elmo_tasks.archives import open_archive
from elmo_tasks.commands.errors import gold_of, mistakes_in, shown_mistakes
from elmo_tasks.pipeline.trained import task_predictor
from tests.errors import mentions

TOPICS = "fixtures/classification/agnews/train.csv"


def test_the_mistakes_of_a_classifier(elmo, capsys):
    archive = open_archive("elmo:topics")
    predictor = task_predictor(archive)
    instances = list(archive.validation_dataset_reader.read(TOPICS))
    mistakes = mistakes_in(predictor.predict_instance(each) | gold_of(each) for each in instances)
    pairs = [(each["label"].label, predictor.predict_instance(each)["label"]) for each in instances]
    assert Counter((each.gold, each.predicted) for each in mistakes) == Counter(
        pair for pair in pairs if len(set(pair)) == 2
    )
    capsys.readouterr()
    assert elmo("errors", "elmo:topics", TOPICS) == 0
    first, *surest = capsys.readouterr().out.partition("The confusions:")[0].splitlines()
    assert first == "The surest mistakes:"
    shares = sorted((each.probability for each in mistakes), reverse=True)[:10]
    assert [line.partition("(")[2].partition(")")[0] for line in surest] == [
        f"{share:.2f}" for share in shares
    ]


TAGGED = """\
Anna B-ORG
Silva I-ORG
met O
Maria B-PER
Rossi I-PER
in B-LOC
Paris B-LOC
. O
"""


def test_the_mistakes_of_a_model_of_entities(tmp_path):
    data = tmp_path / "data.conll"
    data.write_text(TAGGED)
    archive = open_archive("elmo:ner")
    predictor = task_predictor(archive)
    instances = archive.validation_dataset_reader.read(str(data))
    mistakes = mistakes_in(predictor.predict_instance(each) | gold_of(each) for each in instances)
    shown = {(each.gold, each.predicted, each.text) for each in mistakes}
    assert shown == {
        ("ORG", "PER", "[Anna Silva] met Maria Rossi in"),
        ("LOC", None, "Silva met Maria Rossi [in] Paris ."),
    }


def test_other_models(elmo, capsys):
    assert elmo("errors", "elmo:coref", "fixtures/coref/dev.conll") == 1
    assert mentions(capsys.readouterr().err, "no label", "models of entities")


def test_several_labels():
    result = {
        "sentence1_tokens": ["Rain", "."],
        "labels": ["sun", "rain"],
        "probabilities": {"sun": 0.6, "rain": 0.9, "wind": 0.1},
        "gold_labels": ["rain", "wind"],
    }
    assert mistakes_in([result]) == [(None, "sun", 0.6, "Rain ."), ("wind", None, 0.0, "Rain .")]


def test_a_class_that_is_called_none():
    result = {"sentence1_tokens": ["Rain"], "label": "none", "probabilities": {"none": 0.9, "sun": 0.1}}
    (mistake,) = mistakes_in([result | {"gold_label": "sun"}])
    assert "  sun taken for none (0.90): Rain" in shown_mistakes([mistake])
