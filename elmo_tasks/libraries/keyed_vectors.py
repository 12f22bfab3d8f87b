"""
ELMo's word vectors for gensim, as `allennlp elmo vectors elmo` writes them. This module needs AllenNLP.

    vectors = keyed_vectors(["play", "chess"], contexts=[["We", "play", "chess"]])
    vectors.most_similar("play")
"""

from collections.abc import Iterable, Sequence

from gensim.models import KeyedVectors

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model.encoders import checked_words
from elmo_tasks.embedding.embedder import AVERAGE, ElmoEmbedder, check_layer
from elmo_tasks.vectors.encoder import BiLmEncoder, in_contexts, out_of_context


def keyed_vectors(
    words: Iterable[str],
    *,
    contexts: Iterable[Sequence[str]] | None = None,
    layer: int | str = AVERAGE,
    embedder: ElmoEmbedder | None = None,
    occurrences: int = 20,
    seed: int = 13,
) -> KeyedVectors:
    """
    Returns one vector per word; repeated words count once. Words that do not occur in the contexts are left
    out, and so are words that a word-based biLM does not know.

    # Parameters

    contexts : sentences as lists of tokens, in which the words are encoded; if a word never occurs in this
        spelling, case is ignored. `None`: each word is a sentence of its own.
    layer : `average`, or the index of a layer, 0 for the token layer, negative from the top. `ElmoError`: the
        biLM has no such layer.
    embedder : has the biLM; by default the biLM that comes with the project.
    occurrences : the most occurrences of a word to average; if there are more, `seed` draws them.
    """
    if isinstance(words, str):
        raise ElmoError(f"words must be a list of words, not the string {words!r:.60}")
    distinct = list(dict.fromkeys(words))
    bilm = (embedder or ElmoEmbedder()).bilm
    check_layer(layer, bilm.num_layers)
    row = layer if isinstance(layer, str) else f"layer {layer % bilm.num_layers}"
    encoder = BiLmEncoder(bilm=bilm, mixes={}, only=row)
    keyed = KeyedVectors(vector_size=encoder.dim)
    if not distinct:
        return keyed
    if contexts is None:
        (vectors,) = out_of_context(encoder, distinct)
    else:
        sentences = [checked_words(index, sentence) for index, sentence in enumerate(contexts)]
        (vectors,) = in_contexts(encoder, distinct, sentences, limit=occurrences, seed=seed)
    table = vectors.table(distinct)
    keyed.add_vectors(table.words, table.vectors)
    return keyed
