"""Character encoders that meet each word of a batch once."""

import torch
from allennlp.modules import TokenEmbedder

from elmo_tasks.elmo.distinct import distinct_rows
from elmo_tasks.strict_params import StrictParams


@TokenEmbedder.register("elmo_distinct_words")
class DistinctWords(StrictParams, TokenEmbedder):
    """
    Runs another character-level embedder on the distinct words of a batch only, padding being one of them.
    Values and gradients are the same: what it saves is to compute "the" for every "the".

    # Parameters

    embedder : such as `character_encoding`; it must treat words independently, so without dropout inside
        (a word would have the same mask wherever it stands).
    """

    def __init__(self, *, embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder

    def get_output_dim(self) -> int:
        return self.embedder.get_output_dim()

    def forward(self, token_characters: torch.Tensor) -> torch.Tensor:
        """*Shape:* ids `(batch, tokens, characters)` to `(batch, tokens, dim)`."""
        batch, tokens, characters = token_characters.shape
        distinct, index = distinct_rows(token_characters.view(-1, characters))
        # (1, distinct words, dim)
        embedded = self.embedder(distinct.unsqueeze(0))
        return embedded[0, index].view(batch, tokens, -1)
