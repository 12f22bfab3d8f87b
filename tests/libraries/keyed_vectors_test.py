import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.embedding.embedder import ElmoEmbedder

gensim = pytest.importorskip("gensim")

from elmo_tasks.libraries.keyed_vectors import keyed_vectors

WORDS = ["cat", "New York", "Dog", "cat", "absent"]
CONTEXTS = [["the", "cat", "saw", "New York"], [], ["a", "cat", "and", "a", "dog"]]


@pytest.fixture(scope="module")
def embedder(files):
    return ElmoEmbedder(**files)


@pytest.mark.parametrize("layer", ["average", 1, -1])
def test_words_alone(embedder, layer):
    vectors = keyed_vectors(WORDS, layer=layer, embedder=embedder)
    assert vectors.index_to_key == ["cat", "New York", "Dog", "absent"]
    for word in vectors.index_to_key:
        # (layers, dim)
        layers = embedder.embed_sentence([word])[:, 0]
        expected = layers.mean(axis=0) if layer == "average" else layers[layer]
        assert vectors[word] == pytest.approx(expected, abs=1e-6)
    assert len(vectors.most_similar("cat", topn=2)) == 2


def test_words_in_contexts(embedder):
    vectors = keyed_vectors(WORDS, contexts=CONTEXTS, embedder=embedder)
    assert vectors.index_to_key == ["cat", "New York", "Dog"]
    one, two = (embedder.embed_sentence(CONTEXTS[number]).mean(axis=0) for number in (0, 2))
    assert vectors["cat"] == pytest.approx((one[1] + two[1]) / 2, abs=1e-6)
    assert vectors["New York"] == pytest.approx(one[3], abs=1e-6)
    assert vectors["Dog"] == pytest.approx(two[4], abs=1e-6)


def test_no_words_have_no_vectors(embedder):
    for contexts in (None, CONTEXTS):
        vectors = keyed_vectors([], contexts=contexts, embedder=embedder)
        assert (len(vectors), vectors.vector_size) == (0, 12)


@pytest.mark.parametrize(
    ("words", "options"),
    [("cat", {}), (WORDS, {"contexts": ["the cat"]}), (WORDS, {"layer": 3}), (WORDS, {"layer": "top"})],
)
def test_errors(embedder, words, options):
    with pytest.raises(ElmoError):
        keyed_vectors(words, embedder=embedder, **options)
