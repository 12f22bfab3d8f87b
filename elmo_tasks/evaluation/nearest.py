"""Nearest neighbours in context (Peters et al. 2018, Table 4): exact, in one pass over a text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.evaluation.words import round_cosines
from elmo_tasks.vectors.encoder import VectorEncoder

BLOCK_TOKENS = 4096
"""The tokens of a block of text; the last sentence may exceed it."""
CONTEXT_WORDS = 10


class Occurrence(NamedTuple):
    """A token of a sentence."""

    words: list[str]
    position: int

    def marked(self) -> str:
        """Returns the token between `**`, with the words around it."""
        start, end = max(0, self.position - CONTEXT_WORDS), self.position + 1 + CONTEXT_WORDS
        before, after = self.words[start : self.position], self.words[self.position + 1 : end]
        marked = [*before, f"**{self.words[self.position]}**", *after]
        return " ".join([*["…"] * (start > 0), *marked, *["…"] * (end < len(self.words))])


class Neighbor(NamedTuple):
    """A token of the text: its line, its position in the line (both from 0), and its cosine to the query."""

    line: int
    position: int
    cosine: float


class TextBlock(NamedTuple):
    """Consecutive sentences of a text, end to end."""

    vectors: torch.Tensor
    """`(rows, tokens, dim)`"""
    indices: torch.Tensor
    """`(tokens, 2)`: the line and the position of each token."""
    sentences: list[tuple[int, list[str]]]
    """The index of each sentence's first token, and its words."""


def nearest_tokens(
    encoder: VectorEncoder, queries: Sequence[Occurrence], blocks: Iterable[TextBlock], *, count: int
) -> list[list[list[Neighbor]]]:
    """
    Finds the `count` tokens of the text, from `text_blocks` with the same encoder, with the highest cosines,
    for each query and each row, best first; of equally near tokens the first in the text comes first. The
    query's own token is left out, in every line that has the query's sentence.
    """
    encoded = encoder.encode_items(queries, lambda query: query.words)
    # (queries, rows, dim)
    wanted = F.normalize(torch.stack([vectors[:, query.position] for query, vectors in encoded]), dim=2)
    # (queries, rows, best so far)
    cosines = wanted.new_zeros(*wanted.shape[:2], 0)
    # (queries, rows, best so far, 2)
    indices = torch.zeros(*cosines.shape, 2, dtype=torch.long)
    for block in blocks:
        # (queries, rows, tokens)
        here = round_cosines(torch.einsum("qrd,rtd->qrt", wanted, F.normalize(block.vectors, dim=2)))
        for query_index, query in enumerate(queries):
            for start, words in block.sentences:
                if words == query.words:
                    here[query_index, :, start + query.position] = -torch.inf
        cosines, order = torch.cat([cosines, here], dim=2).sort(dim=2, descending=True, stable=True)
        cosines, order = cosines[:, :, :count], order[:, :, :count]
        # (queries, rows, best so far + tokens, 2)
        both = torch.cat([indices, block.indices.expand(*here.shape, 2)], dim=2)
        indices = both.gather(2, order.unsqueeze(3).expand(-1, -1, -1, 2))
    return [
        [
            [
                Neighbor(line, position, cosine)
                for (line, position), cosine in zip(row_indices, row_cosines, strict=True)
                if cosine > -torch.inf
            ]
            for row_indices, row_cosines in zip(*query, strict=True)
        ]
        for query in zip(indices.tolist(), cosines.tolist(), strict=True)
    ]


def text_blocks(encoder: VectorEncoder, lines: Iterable[str]) -> Iterator[TextBlock]:
    """Yields the vectors of a text, one tokenised sentence a line, block by block."""
    vectors: list[torch.Tensor] = []
    indices: list[tuple[int, int]] = []
    sentences: list[tuple[int, list[str]]] = []
    numbered = enumerate(map(str.split, lines))
    for (line, words), encoded in encoder.encode_items(numbered, lambda item: item[1]):
        sentences.append((len(indices), words))
        vectors.append(encoded)
        indices.extend((line, position) for position in range(len(words)))
        if len(indices) >= BLOCK_TOKENS:
            yield TextBlock(torch.cat(vectors, dim=1), torch.tensor(indices), sentences)
            vectors, indices, sentences = [], [], []
    if indices:
        yield TextBlock(torch.cat(vectors, dim=1), torch.tensor(indices), sentences)
