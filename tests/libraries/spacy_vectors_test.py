import pickle
from importlib.metadata import entry_points

import numpy as np
import pytest
import spacy
import srsly
from spacy.pipeline.ner import DEFAULT_NER_MODEL
from spacy.pipeline.tok2vec import DEFAULT_TOK2VEC_MODEL
from spacy.tokens import Doc, DocBin, Span
from spacy.training.initialize import init_nlp
from spacy.training.loop import train

from elmo_tasks.common.colours import for_displacy
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.embedder import ElmoEmbedder
from elmo_tasks.libraries import spacy_archives, spacy_vectors
from elmo_tasks.libraries.spacy_vectors import set_hooks
from tests import fresh
from tests.elmo.files import make_word_files

TEXT = "The cat  sat.\n\nThe cat ran to Oslo.\n"
SENTENCES = [["The", "cat", "sat", "."], ["The", "cat", "ran", "to", "Oslo", "."]]


def pipeline(files, *before, **config):
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("elmo", config=files | config)
    return nlp


@pytest.mark.parametrize("layer", ["average", 0, -1])
@pytest.mark.parametrize("sentencizer", [[], ["sentencizer"]])
def test_vectors_are_those_of_the_embedder(files, layer, sentencizer):
    nlp = pipeline(files, *sentencizer, layer=layer, keep_layers=True)
    doc = nlp(TEXT)
    sentences = SENTENCES if sentencizer else [[*SENTENCES[0], *SENTENCES[1]]]
    # (layers, words, dim)
    layers = np.concatenate([ElmoEmbedder(**files).embed_sentence(words) for words in sentences], axis=1)
    # (words, dim)
    expected = layers.mean(axis=0) if layer == "average" else layers[layer]
    words = [token.i for token in doc if not token.is_space]
    spaces = [token.i for token in doc if token.is_space]
    assert len(spaces) == 3
    assert doc.tensor.shape == (len(doc), 12)
    assert doc.tensor[words] == pytest.approx(expected, abs=1e-6)
    assert doc._.elmo_layers[:, words] == pytest.approx(layers, abs=1e-6)
    assert not doc.tensor[spaces].any()
    assert not doc._.elmo_layers[:, spaces].any()
    assert doc.vector == pytest.approx(expected.mean(axis=0), abs=1e-6)
    assert doc[words[1]].vector.tolist() == doc.tensor[words[1]].tolist()
    assert doc[1:4].text == "cat  sat"
    assert doc[1:4].vector == pytest.approx((doc[1].vector + doc[3].vector) / 2, abs=1e-6)
    assert doc[1:4].vector_norm == pytest.approx(np.linalg.norm(doc[1:4].vector), abs=1e-5)
    assert doc[1].has_vector
    assert not doc[spaces[0]].has_vector
    assert doc.has_vector
    assert not nlp(" ").has_vector
    assert not nlp(" ").vector.any()


ORDERS = (["tok2vec", "elmo", "ner"], ["elmo", "tok2vec", "ner"], ["tok2vec", "ner", "elmo"])


def with_tok2vec(files, names, path):
    """A pipeline whose `ner` listens to `tok2vec`, and the path of data for it."""
    docs = [spacy.blank("en")(text) for text in ("Ana ran to Oslo.", "The cat sat.", "Oslo is far.")]
    for doc in docs:
        doc.ents = [Span(doc, token.i, token.i + 1, "LOC") for token in doc if token.text == "Oslo"]
    DocBin(docs=docs * 4).to_disk(path)
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "tok2vec"}
    models = {
        "tok2vec": DEFAULT_TOK2VEC_MODEL | {"width": 16, "depth": 1, "embed_size": 200},
        "ner": DEFAULT_NER_MODEL | {"hidden_width": 8, "tok2vec": listener},
    }
    nlp = spacy.blank("en")
    for name in names:
        nlp.add_pipe(name, config=files if name == "elmo" else {"model": models[name]})
    nlp.config["paths"] |= {"train": str(path), "dev": str(path)}
    return nlp


@pytest.mark.parametrize("names", ORDERS)
def test_beside_components_that_listen_to_tok2vec(files, names, tmp_path):
    nlp = init_nlp(with_tok2vec(files, names, tmp_path / "train.spacy").config)
    doc = nlp("Ana ran to Oslo.")
    expected = ElmoEmbedder(**files).embed_sentence(["Ana", "ran", "to", "Oslo", "."]).mean(axis=0)
    assert doc.tensor.shape == (5, 16)
    read = Doc(doc.vocab).from_bytes(doc.to_bytes(exclude=["user_hooks"]))
    set_hooks(read)
    component = pickle.loads(pickle.dumps(nlp.get_pipe("elmo")))
    alone = component(nlp.make_doc("Ana ran to Oslo."))
    assert not alone.tensor.size
    for same in (doc, read, pickle.loads(pickle.dumps(doc)), alone):
        assert same._.elmo_vectors == pytest.approx(expected, abs=1e-6)
        assert same.vector == pytest.approx(expected.mean(axis=0), abs=1e-6)
        assert same[3].vector == pytest.approx(expected[3], abs=1e-6)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    with pytest.raises(ElmoError, match="4 tokens"):
        assert doc[3].vector


@pytest.mark.slow
@pytest.mark.parametrize("names", ORDERS)
def test_a_pipeline_with_tok2vec_is_trained(files, names, tmp_path):
    """As by `spacy train`."""
    nlp = with_tok2vec(files, names, tmp_path / "train.spacy")
    nlp.config["training"] |= {"max_steps": 30, "eval_frequency": 15, "annotating_components": ["elmo"]}
    nlp.config["training"]["optimizer"]["learn_rate"] = 0.02
    (tmp_path / "run").mkdir()
    train(init_nlp(nlp.config), tmp_path / "run")
    trained = spacy.load(tmp_path / "run/model-best")
    for doc in trained.pipe(["Ana ran to Oslo.", "Oslo is far."], n_process=2):
        assert [ent.text for ent in doc.ents] == ["Oslo"]
        assert doc._.elmo_vectors.shape == (len(doc), 12)


def test_equal_words_differ_by_their_contexts(files):
    doc = pipeline(files, "sentencizer")(TEXT)
    one, two = (token for token in doc if token.text == "cat")
    cosine = one.vector @ two.vector / np.linalg.norm(one.vector) / np.linalg.norm(two.vector)
    assert one.similarity(two) == pytest.approx(cosine) != pytest.approx(1)
    assert doc[one.i : one.i + 1].similarity(doc[two.i : two.i + 1]) == pytest.approx(cosine)
    assert one.similarity(one) == pytest.approx(1)
    assert doc.similarity(doc) == pytest.approx(1)
    assert one.similarity(doc[2]) == 0


def test_a_bilm_of_words(tmp_path):
    files = make_word_files(tmp_path)
    nlp = pipeline(files)
    nlp.to_disk(tmp_path / "saved")
    assert (tmp_path / "saved/elmo/vocab.txt").exists()
    expected = ElmoEmbedder(**files).embed_sentence(["The", "cat"]).mean(axis=0)
    assert spacy.load(tmp_path / "saved")("The cat").tensor == pytest.approx(expected, abs=1e-6)


def test_docs_are_saved_with_their_vectors(files):
    doc = pipeline(files, keep_layers=True)(TEXT)
    copied = pickle.loads(pickle.dumps(doc))
    assert copied[1].vector.tolist() == doc[1].vector.tolist()
    # spaCy does not save hooks.
    read = Doc(doc.vocab).from_bytes(doc.to_bytes(exclude=["user_hooks"]))
    assert read.tensor.tolist() == doc.tensor.tolist()
    from_json = Doc(doc.vocab).from_json(srsly.json_loads(srsly.json_dumps(doc.to_json(["elmo_layers"]))))
    for same in (read, from_json):
        assert same._.elmo_layers == pytest.approx(doc._.elmo_layers)
    set_hooks(read)
    assert read[1].vector.tolist() == doc[1].vector.tolist()
    assert read[:2].similarity(read[2:3]) == doc[:2].similarity(doc[2:3])


def test_the_default_is_the_bilm_of_the_project():
    doc = pipeline({})("We play chess.")
    expected = ElmoEmbedder().embed_sentence(["We", "play", "chess", "."]).mean(axis=0)
    assert doc.tensor == pytest.approx(expected, abs=1e-6)
    assert doc._.elmo_layers is None


def test_errors(files, tmp_path):
    with pytest.raises(ElmoError, match="layer 3"):
        pipeline(files, layer=3)
    with pytest.raises(OSError, match="nowhere"):
        pipeline({"options_file": str(tmp_path / "nowhere"), "weight_file": "x"})("text")
    with pytest.raises(ElmoError, match="belong together"):
        pipeline({"options_file": files["options_file"]})("text")


@pytest.mark.slow
def test_without_an_import_and_without_allennlp_also_in_forks():
    """PyTorch's threads do not outlive a fork: the processes of `n_process` would wait for them."""
    code = """
import sys, spacy, torch
torch.set_num_threads(2)
nlp = spacy.blank("en")
nlp.add_pipe("elmo")
texts = ["We play chess.", "Her first play opened in May."] * 4
nlp(" ".join(texts))
one, two = (doc.tensor for doc in list(nlp.pipe(texts, n_process=2, batch_size=2))[:2])
assert abs(one - nlp(texts[0]).tensor).max() < 1e-5 and abs(two - nlp(texts[1]).tensor).max() < 1e-5
from elmo_tasks.libraries.vectorizer import ElmoVectorizer
assert ElmoVectorizer().transform(["We play."]).any()
assert "allennlp" not in sys.modules
"""
    done = fresh.run(code)
    assert done.returncode == 0, done.stderr


def test_entry_points():
    """With them `nlp.add_pipe` finds the components, and displaCy the page's colours, without an import."""
    factories = {point.name: point.load() for point in entry_points(group="spacy_factories")}
    assert factories["elmo"] is spacy_vectors.make_vectors
    for task in ("ner", "coref", "srl", "classifier"):
        assert factories[f"elmo_{task}"] is getattr(spacy_archives, f"make_{task}")
    (colours,) = entry_points(group="spacy_displacy_colors", name="elmo")
    assert colours.load() is for_displacy
