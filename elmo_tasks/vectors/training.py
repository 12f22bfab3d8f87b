"""Static word vectors trained on a text: skip-gram with negative sampling, and an SVD of counts."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from inspect import signature
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.progress import progress
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.vectors.files import VectorTable

if TYPE_CHECKING:
    from scipy import sparse

TokenizedText = Iterable[list[str]]
"""The words of each sentence. It is read several times, so it cannot be a generator."""

_MAX_GENSIM_WORDS = 10_000
"""The longest sentence that gensim reads; it drops all further words silently."""
_SENTENCES_AT_ONCE = 1 << 16


def train_table(method: str, sentences: TokenizedText, **settings: int | float) -> VectorTable:
    """Trains the vectors of a text's words by a `method` of `DEFAULTS`, with other `settings`."""
    return _TRAINERS[method](sentences, **settings)


def frequent_words(sentences: TokenizedText, min_count: int) -> dict[str, int]:
    counts = Counter(word for words in sentences for word in words)
    frequent = {word: count for word, count in counts.most_common() if count >= min_count}
    if not frequent:
        raise ConfigurationError(
            f"none of the text's {len(counts):,} words occurs {min_count} times; use a longer text or a "
            "lower --min-count"
        )
    return frequent


def skip_gram(
    sentences: TokenizedText,
    *,
    dim: int = 100,
    window: int = 5,
    min_count: int = 2,
    negative: int = 5,
    subsample: float = 1e-3,
    epochs: int = 20,
    seed: int = 13,
) -> VectorTable:
    """
    Trains word2vec's skip-gram with negative sampling (Mikolov et al. 2013, arXiv:1310.4546), by gensim. One
    thread trains, so that a seed always gives the same vectors.

    `negative` words are drawn for each predicted one. Words with a relative frequency above `subsample` are
    left out at random.
    """
    remedy = "pip install gensim (it has no files for Python 3.14 yet, so use 3.11 to 3.13)"
    with errors_as(ConfigError, "word2vec needs gensim", ImportError, remedy=remedy):
        from gensim.models import Word2Vec
    model = Word2Vec(
        vector_size=dim,
        window=window,
        min_count=min_count,
        negative=negative,
        sample=subsample,
        seed=seed,
        sg=1,
        workers=1,
    )
    model.build_vocab_from_freq(frequent_words(sentences, min_count))
    num_sentences = sum(1 for _ in _gensim_sentences(sentences))
    with progress(total=epochs, work="word2vec", unit="epochs") as bar:
        model.train(_Epochs(sentences, bar.update), total_examples=num_sentences, epochs=epochs)
    return VectorTable(list(model.wv.index_to_key), np.asarray(model.wv.vectors, dtype=np.float32))


def _gensim_sentences(sentences: TokenizedText) -> Iterator[list[str]]:
    """Cuts the sentences into parts that gensim reads whole."""
    for words in sentences:
        for start in range(0, len(words), _MAX_GENSIM_WORDS):
            yield words[start : start + _MAX_GENSIM_WORDS]


class _Epochs:
    """The sentences that gensim reads once an epoch. It calls `at_end` after each epoch."""

    def __init__(self, sentences: TokenizedText, at_end: Callable[[], object]) -> None:
        self._sentences = sentences
        self._at_end = at_end

    def __iter__(self) -> Iterator[list[str]]:
        yield from _gensim_sentences(self._sentences)
        self._at_end()


def ppmi_svd(
    sentences: TokenizedText,
    *,
    dim: int = 100,
    window: int = 5,
    min_count: int = 2,
    shift: float = 1.0,
    smoothing: float = 0.75,
    eigenvalues: float = 0.5,
    seed: int = 13,
) -> VectorTable:
    """
    Trains vectors as rows of `U * S ** eigenvalues`, where `U S V` is the truncated singular value
    decomposition of the words' positive pointwise mutual information with their contexts.

    Source: Levy, Goldberg and Dagan 2015, "Improving Distributional Similarity with Lessons Learned from Word
    Embeddings" (TACL 3), sections 2 and 3.

    `window` counts words of `min_count` occurrences, of which there must be more than `dim`. `log(shift)` is
    subtracted from the information, and the counts of contexts have the exponent `smoothing`. The `seed`
    affects only rounding.
    """
    words = list(frequent_words(sentences, min_count))
    if len(words) <= dim:
        raise ConfigurationError(
            f"{dim} dimensions need more than {len(words):,} words that occur {min_count} times or more; use "
            "a longer text, or a lower --dim or --min-count"
        )
    matrix = positive_information(cooccurrences(sentences, words, window), shift=shift, smoothing=smoothing)
    start = np.random.default_rng(seed).standard_normal(len(words))
    from scipy.sparse.linalg import svds

    left, values, _ = svds(matrix, k=dim, v0=start)
    # The largest value first; the sign makes the largest number of a column positive
    order = values.argsort()[::-1]
    left, values = left[:, order], values[order]
    left *= np.sign(left[np.abs(left).argmax(axis=0), np.arange(dim)])
    return VectorTable(words, (left * values**eigenvalues).astype(np.float32))


def cooccurrences(sentences: TokenizedText, words: list[str], window: int) -> "sparse.csr_array":
    """
    Counts how often `words` are at most `window` of these words apart, on either side. *Shape:* `(words,
    words)`.
    """
    from scipy import sparse

    ids = {word: index for index, word in enumerate(words)}
    shape = (len(words), len(words))
    to_the_right = sparse.csr_array(shape)
    ids_of_sentences = ([ids[word] for word in sentence if word in ids] for sentence in sentences)
    while some := list(islice(ids_of_sentences, _SENTENCES_AT_ONCE)):
        lengths = [len(sentence) for sentence in some]
        # (tokens,), all sentences end to end, and the sentence of each token
        tokens = np.fromiter(chain.from_iterable(some), dtype=np.int32)
        lines = np.repeat(np.arange(len(some), dtype=np.int32), lengths)
        for distance in range(1, min(window, max(lengths) - 1) + 1):
            same = lines[:-distance] == lines[distance:]
            # (pairs,)
            left, right = tokens[:-distance][same], tokens[distance:][same]
            to_the_right = to_the_right + sparse.coo_array((np.ones(len(left)), (left, right)), shape).tocsr()
    return (to_the_right + to_the_right.T).tocsr()


def positive_information(counts: "sparse.csr_array", *, shift: float, smoothing: float) -> "sparse.csr_array":
    """Computes `max(0, log(p(w, c) / (p(w) p(c))) - log(shift))`. *Shape:* `(words, contexts)`."""
    from scipy import sparse

    pairs = counts.tocoo()
    rows, columns = pairs.coords
    # (words,), (contexts,)
    counts_of_words = counts.sum(axis=1)
    counts_of_contexts = counts.sum(axis=0) ** smoothing
    # (pairs,)
    ratio = pairs.data * counts_of_contexts.sum() / (counts_of_words[rows] * counts_of_contexts[columns])
    values = np.maximum(0.0, np.log(ratio) - math.log(shift))
    information = sparse.csr_array((values, (rows, columns)), counts.shape)
    information.eliminate_zeros()
    return information


_TRAINERS: dict[str, Callable[..., VectorTable]] = {"word2vec": skip_gram, "svd": ppmi_svd}
DEFAULTS: dict[str, dict[str, int | float]] = {
    method: {setting.name: setting.default for setting in list(signature(train).parameters.values())[1:]}
    for method, train in _TRAINERS.items()
}
"""The settings of each method, `word2vec` and `svd`: see `skip_gram` and `ppmi_svd`."""
