import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.page.tabs import Tab
from tests.predictors.archives import predictor_of


@pytest.fixture(scope="module")
def srl():
    return Tab.of("who", predictor_of("srl"))


def test_the_tab_of_a_model(srl):
    assert (srl.name, srl.task, srl.about.title, srl.explains) == ("who", "srl", "Semantic roles", False)
    assert [(field.label, field.required) for field in srl.fields] == [
        ("Sentence", True),
        ("Predicates", False),
    ]
    assert [mix.placement for mix in srl.mixes] == ["input"]
    sentence = "Paul sold the old boat to a fisherman in Vienna."
    assert srl.examples[0] == {"sentence": sentence, "predicates": "sold"}


def test_predicates_are_words_or_places(srl):
    sentence = "The teacher, who came,\r\nexplained it."
    content = {"sentence": sentence.replace("\r", "")}
    form = {"sentence": sentence, "predicates": " came, 6 "}
    assert srl.content(form) == content | {"predicates": [4, 6]}
    assert srl.content({"sentence": sentence, "predicates": " "}) == content


def test_the_first_of_repeated_words_is_the_predicate(srl):
    form = {"sentence": "Run, Ana, run and run.", "predicates": "run Ana Run"}
    assert srl.content(form)["predicates"] == [4, 2, 0]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "Sentence: found nothing, expected a text"),
        ({"sentence": " \n"}, "Sentence: found nothing, expected a text"),
        ({"sentence": "Ana flew.", "predicates": "flies"}, "Predicates: found 'flies'"),
        ({"sentence": "Ana flew.", "predicates": "9" * 5000}, "Predicates: found '999"),
    ],
)
def test_errors(srl, form, message):
    with pytest.raises(ConfigurationError, match=message):
        srl.content(form)


@pytest.mark.parametrize(
    ("config", "fields", "start"),
    [("agnews", ["sentence"], "The goalkeeper"), ("mrpc", ["sentence1", "sentence2"], "The ferry was")],
)
def test_classifiers_have_examples_of_their_kind(config, fields, start):
    tab = Tab.of("c", predictor_of(config))
    assert [field.name for field in tab.fields] == fields
    assert tab.explains
    assert tab.examples[0][fields[0]].startswith(start)
