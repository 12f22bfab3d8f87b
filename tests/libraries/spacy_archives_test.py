import pickle
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import spacy
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import archive_model
from allennlp.predictors import Predictor
from spacy import displacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.vocab import Vocab

import elmo_tasks.libraries.spacy_archives  # noqa: F401  registers the components
from elmo_tasks.common.colours import for_displacy
from tests.elmo.files import make_block, make_files
from tests.ner.archives import write_run
from tests.pipeline.archives import write_archive

TEXT = "Ana Silva flew to Lisbon.\n\nShe  met Reuters in Paris, said the ferryman.\n"
TEXTS = [TEXT, "", " \n", "Reuters saw Ana Silva in Lisbon.", "One.", TEXT]


@pytest.fixture(scope="module")
def ner(tmp_path_factory):
    """A run with random weights, which tags at random, and its archive."""
    folder = tmp_path_factory.mktemp("ner")
    make_files(folder / "bilm")
    write_run(folder / "run", seed=3, bilm=folder / "bilm")
    return archive_model(folder / "run")


@pytest.fixture(scope="module")
def coref(tmp_path_factory):
    return write_archive(tmp_path_factory.mktemp("coref") / "run", "coref")


def pipeline(factory, archive, *before, **config):
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe(factory, config={"archive": str(archive), **config})
    return nlp


def copies(doc):
    """Docs that were saved as bytes, and are read with an empty vocabulary."""
    docs = DocBin(docs=[doc], store_user_data=True)
    yield Doc(Vocab()).from_bytes(doc.to_bytes())
    yield from DocBin().from_bytes(docs.to_bytes()).get_docs(Vocab())


def entities(doc):
    return [(span.start_char, span.end_char, span.label_) for span in doc.ents]


def mentions(doc):
    return [(span.start, span.end, span.label_) for span in doc.spans["coref"]]


def test_entities_are_scored(ner):
    nlp = pipeline("elmo_ner", ner)
    found = nlp(TEXT)
    gold = {"entities": entities(found)[1:]}
    scores = nlp.evaluate([Example.from_dict(nlp.make_doc(TEXT), gold)])
    assert scores["ents_r"] == 1.0
    assert scores["ents_p"] == pytest.approx(1 - 1 / len(found.ents))


def test_entities_are_those_of_the_predictor(ner):
    doc = pipeline("elmo_ner", ner)(TEXT)
    result = Predictor.from_path(str(ner), import_plugins=False).predict(TEXT)
    assert entities(doc) == [(e["char_start"], e["char_end"], e["type"]) for e in result["entities"]] != []
    assert displacy.render(doc, style="ent", jupyter=False).count("<mark") == len(doc.ents)


def test_probabilities_of_entities(ner):
    nlp = pipeline("elmo_ner", ner)
    doc = nlp(TEXT)
    probabilities = [span._.elmo_probability for span in doc.ents]
    result = Predictor.from_path(str(ner), import_plugins=False).predict(TEXT)
    assert probabilities == pytest.approx([e["probability"] for e in result["entities"]], abs=1e-5)
    for copy in copies(doc):
        assert [span._.elmo_probability for span in copy.ents] == probabilities
    assert doc[: len(doc)]._.elmo_probability is None


def test_entities_of_earlier_components(ner):
    with_ours = pipeline("elmo_ner", ner)(TEXT)
    first = with_ours.ents[0]
    for overwrite, label in ((False, "EARLIER"), (True, first.label_)):
        nlp = pipeline("elmo_ner", ner, overwrite_ents=overwrite)
        ruler = nlp.add_pipe("entity_ruler", before="elmo_ner")
        ruler.add_patterns([{"label": "EARLIER", "pattern": first.text}])
        doc = nlp(TEXT)
        span = doc.char_span(first.start_char, first.end_char).ents[0]
        assert span.label_ == label
        assert (span._.elmo_probability is None) == (label == "EARLIER")
        assert {span for span in entities(doc) if span[2] != "EARLIER"} <= set(entities(with_ours))


def test_mentions_are_those_of_the_predictor(coref):
    nlp = pipeline("elmo_coref", coref)
    doc = nlp(TEXT)
    words = [token.i for token in doc if not token.is_space]
    result = Predictor.from_path(str(coref), import_plugins=False).predict_json(
        {"tokens": [doc[i].text for i in words]}
    )
    expected = [
        (words[first], words[last] + 1, str(i))
        for i, cluster in enumerate(result["clusters"])
        for first, last in cluster
    ]
    assert mentions(doc) == expected != []
    html = displacy.render(doc, style="span", options={"spans_key": "coref"}, jupyter=False)
    assert "z-index: 10" in html
    assert list(pipeline("elmo_coref", coref, spans_key="chains")(TEXT).spans) == ["chains"]


def vectors(doc):
    return pytest.approx(doc.tensor, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factory", "found"), [("elmo_ner", entities), ("elmo_coref", mentions), ("elmo", vectors)]
)
def test_saved_pickled_in_batches_and_from_threads(factory, found, ner, coref, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    if factory == "elmo":
        config = make_block(source)
    else:
        config = {"archive": shutil.copy(ner if factory == "elmo_ner" else coref, source)}
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe(factory, config=config)
    alone = [found(nlp(text)) for text in TEXTS]

    def same(docs):
        return [doc.tensor if factory == "elmo" else found(doc) for doc in docs] == alone

    assert same(nlp.pipe(TEXTS, batch_size=4))
    nlp.to_disk(tmp_path / "saved")
    component, data = pickle.loads(pickle.dumps(nlp.get_pipe(factory))), nlp.to_bytes()
    from_bytes = spacy.blank("en")
    from_bytes.add_pipe("sentencizer")
    from_bytes.add_pipe(factory, config=config)
    from_bytes.from_bytes(data)
    shutil.rmtree(source)
    loaded = spacy.load(tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved")
    assert same(component(nlp.get_pipe("sentencizer")(nlp.make_doc(text))) for text in TEXTS)
    assert same(map(from_bytes, TEXTS))
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: same(loaded.pipe(TEXTS)), range(8)))


@pytest.mark.slow
def test_the_folder_of_a_run_is_saved_with_the_weights_in_use(ner, tmp_path):
    """Its archive may be older or missing, and the training may continue."""
    run = tmp_path / "run"
    make_files(tmp_path / "bilm")
    write_run(run, seed=4, bilm=tmp_path / "bilm")
    shutil.copy(ner, run)
    nlp = pipeline("elmo_ner", run)
    expected = entities(nlp(TEXT))
    assert expected != entities(pipeline("elmo_ner", ner)(TEXT))
    shutil.copy(Path(ner).with_name("best.th"), run)
    nlp.to_disk(tmp_path / "saved")
    (run / "model.tar.gz").unlink()
    copied = pickle.loads(pickle.dumps(nlp.get_pipe("elmo_ner")))
    shutil.rmtree(run)
    run.write_text("damaged")
    assert entities(spacy.load(tmp_path / "saved")(TEXT)) == expected
    assert entities(copied(nlp.make_doc(TEXT))) == expected


def test_roles_and_classes(tmp_path):
    nlp = spacy.blank("en")
    for factory in ("elmo_srl", "elmo_classifier"):
        nlp.add_pipe(factory)
    doc, empty = nlp.pipe(["Ana sold the cello.\n\nShe needed money.", ""])
    roles = [(span.label_, span.text, doc[int(span.id_)].text) for span in doc.spans["srl"]]
    assert roles[:3] == [("ARG0", "Ana", "sold"), ("V", "sold", "sold"), ("ARG1", "the cello", "sold")]
    assert ("ARG1", "money", "needed") in roles
    for copy in [*copies(doc), Doc(Vocab()).from_json(doc.to_json())]:
        assert [(span.label_, span.text, doc[int(span.kb_id_)].text) for span in copy.spans["srl"]] == roles
    html = displacy.render(doc, style="span", options={"spans_key": "srl"}, jupyter=False)
    assert {for_displacy()[label] for label, _, _ in roles} == set(re.findall(r"background: (#\w+)", html))
    assert sum(doc.cats.values()) == pytest.approx(1)
    assert (empty.cats, list(empty.spans["srl"])) == ({}, [])
    best = {label: label == max(doc.cats, key=doc.cats.get) for label in doc.cats}
    scores = nlp.evaluate([Example.from_dict(nlp.make_doc(doc.text), {"cats": best})])
    assert scores["cats_micro_f"] == 1
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")(doc.text)
    assert [(span.label_, span.id_) for span in again.spans["srl"]] == [
        (span.label_, span.id_) for span in doc.spans["srl"]
    ]
    assert again.cats == pytest.approx(doc.cats, abs=1e-5)


def test_errors(ner, tmp_path):
    with pytest.raises(ConfigurationError, match=r"CorefPredictor.*NerPredictor"):
        pipeline("elmo_coref", ner)
    with pytest.raises(ConfigurationError, match=r"SnliPredictor"):
        pipeline("elmo_classifier", "elmo:snli")
    pairs = write_archive(tmp_path / "pairs", "mrpc")
    with pytest.raises(ConfigurationError, match=r"pairs.*sentence1 and sentence2"):
        pipeline("elmo_classifier", pairs)
    nlp = pipeline("elmo_ner", tmp_path / "nowhere.tar.gz")
    with pytest.raises(OSError, match="nowhere"):
        nlp("text")
    with pytest.raises(ValueError, match="batch_size: 0"):
        pipeline("elmo_ner", ner, batch_size=0)
    nlp = pipeline("elmo_ner", ner)
    nlp.to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "elmo_ner" / "model.tar.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"elmo_ner.model\.tar\.gz"):
        spacy.load(tmp_path / "saved")
