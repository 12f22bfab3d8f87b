import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks
from sklearn.utils.validation import check_is_fitted

from elmo_tasks import load
from elmo_tasks.embedding.embedder import BiLmFiles, ElmoEmbedder
from elmo_tasks.libraries.vectorizer import ElmoVectorizer

APPLICABLE_CHECKS = (
    checks.check_estimator_cloneable,
    checks.check_estimator_tags_renamed,
    checks.check_valid_tag_types,
    checks.check_estimator_repr,
    checks.check_no_attributes_set_in_init,
    checks.check_mixin_order,
    checks.check_do_not_raise_errors_in_init_or_set_params,
    checks.check_parameters_default_constructible,
    checks.check_get_params_invariance,
    checks.check_set_params,
    checks.check_transformer_n_iter,
)
"""
The checks that need no array of numbers: `check_estimator` runs almost none for an estimator of text, and
says so. The others pass numbers to `fit` or `transform`. Their requirements that make sense for text have
their own tests below: pickling, pipelines, equal results alone and together, two calls of fit, and so on.
"""

TEXTS = ["The cat sat on the mat.", "Yes!", "", "Zoë flew to Łódź, didn't she?", "No, the cat ran."]
TOKENS = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    ["Yes", "!"],
    [],
    ["Zoë", "flew", "to", "Łódź", ",", "didn't", "she", "?"],
    ["No", ",", "the", "cat", "ran", "."],
]


@pytest.fixture
def vectorizer(files):
    return ElmoVectorizer(**files)


@pytest.mark.parametrize("check", APPLICABLE_CHECKS, ids=lambda check: check.__name__)
def test_scikit_learns_checks(vectorizer, check):
    check("ElmoVectorizer", vectorizer)


@pytest.mark.parametrize("layer", ["average", 0, 2, -1])
@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last"])
def test_pooled_vectors(files, layer, pooling):
    vectors = ElmoVectorizer(**files, layer=layer, pooling=pooling).fit_transform(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((5, 12), np.float32)
    for words, vector in zip(TOKENS, vectors, strict=True):
        layers = ElmoEmbedder(**files).embed_sentence(words)
        chosen = layers.mean(axis=0) if layer == "average" else layers[layer]
        if not words:
            expected = np.zeros(12)
        elif pooling in ("first", "last"):
            expected = chosen[0 if pooling == "first" else -1]
        else:
            expected = chosen.mean(axis=0) if pooling == "mean" else chosen.max(axis=0)
        assert vector == pytest.approx(expected, abs=1e-6)


def test_strings_tokens_and_arrays_are_the_same(vectorizer, files):
    expected = vectorizer.transform(TOKENS)
    for same in (TEXTS, tuple(TEXTS), np.array(TEXTS), iter(TEXTS), [*TOKENS[:2], *TEXTS[2:]]):
        assert vectorizer.transform(same).tolist() == expected.tolist()
    split = ElmoVectorizer(**files, tokenizer=str.split)
    assert split.transform([" ".join(words) for words in TOKENS]).tolist() == expected.tolist()
    assert vectorizer.transform([]).shape == (0, 12)


def test_columns_of_tables(vectorizer):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    expected = vectorizer.transform(TEXTS).tolist()
    strings = (
        pandas.Series(TEXTS, dtype="string"),
        pandas.Series(TEXTS, dtype=pandas.ArrowDtype(pyarrow.string())),
    )
    for column in (*strings, pyarrow.array(TEXTS).dictionary_encode(), pyarrow.chunked_array([TOKENS])):
        assert vectorizer.fit(column).transform(column).tolist() == expected


def test_cloned_and_pickled_without_weights(vectorizer):
    assert list(vectorizer.get_feature_names_out()) == [f"elmovectorizer{number}" for number in range(12)]
    expected = vectorizer.transform(TEXTS)
    check_is_fitted(vectorizer)
    data = pickle.dumps(vectorizer)
    assert len(data) < 1000
    for same in (pickle.loads(data), clone(vectorizer)):
        assert same.transform(TEXTS).tolist() == expected.tolist()


@pytest.mark.slow
def test_in_a_pipeline_under_a_grid_search():
    nouns, verbs = ("cat", "dog", "mat"), ("sat", "ran", "fell", "flew")
    texts = [f"The {noun} {verb}." for noun in nouns for verb in verbs]
    labels = ["cat" in text for text in texts]
    search = GridSearchCV(
        make_pipeline(ElmoVectorizer(), LogisticRegression(C=100.0)),
        {"elmovectorizer__layer": ["average", 0, np.int64(-1)], "elmovectorizer__pooling": ["mean", "max"]},
        cv=2,
        error_score="raise",
    )
    search.fit(texts, labels)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_estimator_.score(texts, labels) == 1
    assert pickle.loads(pickle.dumps(search)).predict(texts).tolist() == labels


def test_threads(vectorizer):
    """They share one biLM, which is read once."""
    expected = vectorizer.transform(TEXTS).tolist()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: clone(vectorizer).transform(TEXTS).tolist(), range(16)))
    assert results == [expected] * 16
    files = BiLmFiles(vectorizer.options_file, vectorizer.weight_file)
    assert files.embedder() is files.embedder()


def test_the_vectors_of_the_sentence_encoder():
    vectorizer = ElmoVectorizer(pooling="sentence")
    vectors = vectorizer.fit_transform(TEXTS)
    expected = [[*each.vector, *each.scores] for each in load("sentence").predict_batch(TEXTS)]
    assert vectors == pytest.approx(np.array(expected), abs=1e-5)
    assert (vectors.dtype, vectors.shape) == (np.float32, (5, len(vectorizer.get_feature_names_out())))
    words = ElmoVectorizer(pooling="sentence", tokenizer=str.split).transform(["Yes !", TOKENS[1]])
    assert words == pytest.approx(np.array([expected[1]] * 2), abs=1e-5)
    assert pickle.loads(pickle.dumps(vectorizer)).transform([]).shape == (0, vectors.shape[1])


@pytest.mark.parametrize(
    ("parameters", "sentences", "place"),
    [
        ({"pooling": "sum"}, TEXTS, "pooling"),
        ({"layer": 3}, TEXTS, "layer 3"),
        ({"batch_size": 0}, TEXTS, "batch_size"),
        ({"weight_file": None}, TEXTS, "belong together"),
        ({}, "a string", "str"),
        ({}, {"text": TEXTS}, "dict"),
        ({}, np.array([TEXTS]), "ndarray"),
        ({}, ["one", 1.5], "sentence 1"),
        ({}, ["one", float("nan")], "fillna"),
        ({"tokenizer": str.upper}, ["two words"], "sentence 0"),
    ],
)
def test_errors(files, parameters, sentences, place):
    vectorizer = ElmoVectorizer(**files | parameters)
    with pytest.raises(ValueError, match=place):
        vectorizer.transform(sentences)
