import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.page.tabs import Tab
from tests.pipeline.archives import predictor_of


@pytest.fixture(scope="module")
def srl():
    return Tab.of("who", predictor_of("srl"))


def test_the_tab_of_a_model(srl):
    assert (srl.name, srl.task, srl.about.title, srl.explains) == ("who", "srl", "Semantic roles", False)
    assert [(field.label, field.required) for field in srl.fields] == [
        ("Text", True),
        ("Predicates", False),
    ]
    assert [mix.placement for mix in srl.mixes] == ["input"]
    assert len({srl.colours[label] for label in ("ARG0", "ARG1", "V")}) == 3


def test_each_classifier_has_a_title_of_its_own():
    classifier = predictor_of("agnews")
    tabs = [Tab.of("mood", classifier), Tab.of("subjects", classifier)]
    tabs += [Tab.of(name, classifier, archive=f"elmo:{name}") for name in ("sentiment", "topics")]
    assert len({tab.about.title for tab in tabs}) == len(tabs)
    assert tabs[0].about.title == "Mood"


def test_predicates_are_words_or_places(srl):
    sentence = "The teacher, who came,\r\nexplained it."
    content = {"sentence": sentence.replace("\r", "")}
    form = {"sentence": sentence, "predicates": " came, 6 "}
    assert srl.content(form) == content | {"predicates": [4, 6]}
    assert srl.content({"sentence": sentence, "predicates": " "}) == content


def test_the_title_of_an_example_begins_with_its_question():
    tab = Tab.of("m", predictor_of("squad"))
    assert tab.title_of({"passage": "Bo ran.", "question": "Who ran?"}) == "Who ran? · Bo ran."


def test_the_sentence_of_a_predicate(srl):
    text = "Ana sold it. Bo ran home."
    assert srl.sentence_of(text, {"index": 1}) == (0, 12)
    assert srl.sentence_of(text, {"index": 5}) == (13, len(text))


def test_the_first_of_repeated_words_is_the_predicate(srl):
    form = {"sentence": "Run, Ana, run and run.", "predicates": "run Ana Run"}
    assert srl.content(form)["predicates"] == [4, 2, 0]
    assert srl.content({"sentence": "Ana sold it.", "predicates": "Sold"})["predicates"] == [1]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "“Text” is empty"),
        ({"sentence": " \n"}, "“Text” is empty"),
        ({"sentence": "Ana flew.", "predicates": "flies"}, "“flies” is not in"),
        ({"sentence": "Ana flew.", "predicates": "3"}, "“3” .*from 0 to 2"),
        ({"sentence": "Ana flew.", "predicates": "9" * 5000}, "“999"),
    ],
)
def test_errors(srl, form, message):
    with pytest.raises(ConfigurationError, match=message):
        srl.content(form)


def test_a_trained_model_has_a_card_and_examples(srl):
    pytest.importorskip("fastapi")
    from elmo_tasks.serving.models import open_predictor

    tab = Tab.of("ner", open_predictor("elmo:ner"), archive="elmo:ner")
    assert "F1" in tab.card
    assert all(example.keys() == {"sentence"} for example in tab.examples)
    assert tab.examples
    # Other models of a task have the examples of the trained one, and no card.
    assert srl.card == ""
    assert [set(example) for example in srl.examples] == [{"sentence"}] * 4
