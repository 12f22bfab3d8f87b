"""
ELMo's vectors of words for gensim, as `allennlp elmo vectors elmo` writes them. It needs AllenNLP.

    vectors = keyed_vectors(["play", "music"], contexts=[["We", "play", "chess"]])
    vectors.most_similar("play")
"""

from collections.abc import Iterable, Sequence

from gensim.models import KeyedVectors

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model.encoders import checked_words
from elmo_tasks.embedding import ElmoEmbedder
from elmo_tasks.libraries.shared import AVERAGE, check_layer
from elmo_tasks.vectors.encoder import BiLmEncoder
from elmo_tasks.vectors.word_vectors import alone, in_contexts


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
    One vector a word. A word that stands in none of the contexts is left out, and so is one that a biLM of
    words does not know.

    # Parameters

    words : of equal ones the first counts.
    contexts : sentences as lists of tokens, in which words are encoded; if a word never stands there as it
        is, case is ignored. `None`: each word is a sentence of its own.
    layer : `average`, or the number of a layer, 0 for the token layer, negative from the top.
    embedder : with the biLM; by default that of the one that comes with the project.
    occurrences : of a word that are averaged, at most; so many are drawn by `seed`.

    # Raises
    `ElmoError`: the biLM has no such layer; one string in the place of words, or a text in that of a list of
    tokens; `occurrences` below 1.
    """
    if isinstance(words, str):
        raise ElmoError(f"found {words!r:.60}, expected a list of words")
    if occurrences < 1:
        raise ElmoError(f"occurrences is {occurrences}, expected 1 or more")
    bilm = (embedder or ElmoEmbedder()).bilm
    check_layer(layer, bilm.num_layers)
    row = layer if isinstance(layer, str) else f"layer {layer % bilm.num_layers}"
    encoder = BiLmEncoder(bilm=bilm, mixes={}, only=row)
    different = list(dict.fromkeys(words))
    keyed = KeyedVectors(vector_size=encoder.dim)
    if not different:
        return keyed
    if contexts is None:
        (vectors,) = alone(encoder, different)
    else:
        sentences = [checked_words(number, sentence) for number, sentence in enumerate(contexts)]
        (vectors,) = in_contexts(encoder, different, sentences, limit=occurrences, seed=seed)
    table = vectors.table(different)
    keyed.add_vectors(table.words, table.vectors)
    return keyed
