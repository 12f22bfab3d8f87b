"""Nearest neighbours in context (Peters et al. 2018, Table 4): exact, in one pass over a text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.evaluation.similarity import round_cosines
from elmo_tasks.vectors.encoder import Encoder

_BLOCK = 4096
"""Tokens that are compared at once; one sentence more at most."""
SHOWN = 10
"""Words on either side of a token that are shown of its sentence, at most."""


class Occurrence(NamedTuple):
    """A token of a sentence."""

    words: list[str]
    position: int

    def marked(self) -> str:
        """The token between `**`, and of its sentence what is near."""
        start, end = max(0, self.position - SHOWN), self.position + 1 + SHOWN
        before, after = self.words[start : self.position], self.words[self.position + 1 : end]
        marked = [*before, f"**{self.words[self.position]}**", *after]
        return " ".join([*["…"] * (start > 0), *marked, *["…"] * (end < len(self.words))])


class Neighbor(NamedTuple):
    line: int
    """Of the text, from 0."""
    position: int
    """In the line, from 0."""
    cosine: float


class Block(NamedTuple):
    """Consecutive sentences of a text end to end."""

    vectors: torch.Tensor
    """`(rows, tokens, dim)`"""
    indices: torch.Tensor
    """`(tokens, 2)`: line and position of each token."""
    sentences: list[tuple[int, list[str]]]
    """Where each begins among the tokens, and its words."""


def nearest_tokens(
    encoder: Encoder, queries: Sequence[Occurrence], blocks: Iterable[Block], *, count: int
) -> list[list[list[Neighbor]]]:
    """
    Finds for each query and each row the `count` tokens of the text of the highest cosine, best first, or as
    many as there are. Of equally near ones the first in the text comes first. The query itself, in whatever
    line its sentence stands, is none of them.

    # Parameters

    blocks : the text, by `text_blocks` with the same encoder.
    """
    encoded = encoder.encode_items(queries, lambda query: query.words)
    # (queries, rows, dim)
    vectors = torch.stack([vectors[:, query.position] for query, vectors in encoded])
    wanted = F.normalize(vectors, dim=2)
    # (queries, rows, found so far)
    cosines = wanted.new_zeros(*wanted.shape[:2], 0)
    # (queries, rows, found so far, 2)
    indices = torch.zeros(*cosines.shape, 2, dtype=torch.long)
    for block in blocks:
        # (queries, rows, tokens)
        here = round_cosines(torch.einsum("qrd,rtd->qrt", wanted, F.normalize(block.vectors, dim=2)))
        for number, query in enumerate(queries):
            for start, words in block.sentences:
                if words == query.words:
                    here[number, :, start + query.position] = -torch.inf
        cosines, order = torch.cat([cosines, here], dim=2).sort(dim=2, descending=True, stable=True)
        cosines, order = cosines[:, :, :count], order[:, :, :count]
        # (queries, rows, found so far + tokens, 2)
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


def text_blocks(encoder: Encoder, lines: Iterable[str]) -> Iterator[Block]:
    """
    The vectors of a text, one block after the other, so that memory need not grow with the text.

    # Parameters

    lines : a tokenised sentence each.
    """
    vectors: list[torch.Tensor] = []
    indices: list[tuple[int, int]] = []
    sentences: list[tuple[int, list[str]]] = []
    numbered = enumerate(map(str.split, lines))
    for (line, words), encoded in encoder.encode_items(numbered, lambda item: item[1]):
        sentences.append((len(indices), words))
        vectors.append(encoded)
        indices.extend((line, position) for position in range(len(words)))
        if len(indices) >= _BLOCK:
            yield Block(torch.cat(vectors, dim=1), torch.tensor(indices), sentences)
            vectors, indices, sentences = [], [], []
    if indices:
        yield Block(torch.cat(vectors, dim=1), torch.tensor(indices), sentences)
