"""Word2Vec: skip-gram with negative sampling (Mikolov et al. 2013, arXiv:1310.4546), by gensim."""

from collections.abc import Iterator

import numpy as np
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors.word_vectors import TokenizedText, WordTable, frequent_words

_LONGEST = 10_000
"""Words of a sentence. Of a longer one gensim drops the rest without a word."""


def skip_gram(
    sentences: TokenizedText,
    *,
    dim: int,
    window: int,
    min_count: int,
    negative: int,
    subsample: float,
    epochs: int,
    seed: int,
) -> WordTable:
    """
    The same vectors for the same seed: one thread trains.

    # Parameters

    window : words on each side that are predicted, at most; how many is drawn at each word.
    min_count : words that occur more seldom are left out.
    negative : words that are drawn for each predicted one.
    subsample : t: words of relative frequency f > t are left out at random, more often the more frequent they
        are; 0: none.

    # Raises
    `ConfigurationError`: gensim is not installed, or no word is frequent enough.
    """
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise ConfigurationError(
            "word2vec: gensim is not installed; install it beside what is pinned here: "
            "pip install gensim -c requirements.lock"
        ) from error
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
    pieces = _Pieces(sentences)
    model.train(pieces, total_examples=sum(1 for _ in pieces), epochs=epochs)
    return WordTable(list(model.wv.index_to_key), np.asarray(model.wv.vectors, dtype=np.float32))


class _Pieces:
    """The sentences, long ones in pieces."""

    def __init__(self, sentences: TokenizedText) -> None:
        self._sentences = sentences

    def __iter__(self) -> Iterator[list[str]]:
        for words in self._sentences:
            for start in range(0, len(words), _LONGEST):
                yield words[start : start + _LONGEST]
