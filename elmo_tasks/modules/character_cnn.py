"""Word vectors from characters, learned with the task (Ma and Hovy 2016, arXiv:1603.01354)."""

from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules import TokenEmbedder
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.batches import unique_rows
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, Size

_MAX_PLACES = 1 << 19
"""Characters of the words that are computed together, a bound on memory for batches with a very long word."""


@TokenEmbedder.register("elmo_character_cnn")
class CharacterCnn(StrictParams, TokenEmbedder):
    """
    A convolution over the characters of a word, ReLU, and the maximum over positions, for the indexer
    `characters`.

    The window is centred on each character, with zeros outside the word, so that words shorter than the
    window have features too; AllenNLP's `cnn` encoder gives them a zero vector. Equal words of a batch are
    computed once. The convolution is one matrix product, since oneDNN would compile a kernel for each new
    number of words.

    # Parameters

    vocab : with the characters in `namespace`.
    embedding_dim : size of a character's vector.
    num_filters : size of a word's vector.
    width : of the window, in characters; odd.
    namespace : of the characters in the vocabulary.
    """

    def __init__(
        self,
        *,
        vocab: Vocabulary,
        embedding_dim: Size,
        num_filters: Size,
        width: Size = 3,
        namespace: Name = "token_characters",
    ) -> None:
        super().__init__()
        if width % 2 == 0:
            raise ConfigurationError(f"width is {width}, expected an odd number")
        self.margin = width // 2
        self.namespace = namespace
        self.embedding = nn.Embedding(vocab.get_vocab_size(namespace), embedding_dim, padding_idx=0)
        nn.init.xavier_uniform_(self.embedding.weight)
        with torch.no_grad():
            self.embedding.weight[0].zero_()
        self.filters = nn.Linear(width * embedding_dim, num_filters)

    def get_output_dim(self) -> int:
        return self.filters.out_features

    def extend_vocab(self, extended_vocab: Vocabulary, **_: Any) -> None:
        """Initializes the embeddings of characters added to the vocabulary; AllenNLP calls it."""
        old = self.embedding.weight
        vectors = old.new_empty(extended_vocab.get_vocab_size(self.namespace), old.shape[1])
        nn.init.xavier_uniform_(vectors)
        vectors[: len(old)] = old.detach()
        self.embedding = nn.Embedding.from_pretrained(vectors, freeze=not old.requires_grad, padding_idx=0)

    def forward(self, token_characters: torch.Tensor) -> torch.Tensor:
        """*Shape:* ids `(batch, tokens, characters)`, 0 for none, to `(batch, tokens, num_filters)`."""
        batch, tokens, length = token_characters.shape
        words, index = unique_rows(token_characters.view(-1, length))
        parts = words.split(max(1, _MAX_PLACES // (length + 2 * self.margin)))
        features = torch.cat([self._features(part) for part in parts])
        return features[index].view(batch, tokens, -1)

    def _features(self, words: torch.Tensor) -> torch.Tensor:
        """*Shape:* ids `(words, characters)` to `(words, num_filters)`."""
        # (words, margin + characters + margin, embedding_dim)
        characters = self.embedding(F.pad(words, (self.margin, self.margin)))
        # (words, characters, embedding_dim * width)
        windows = characters.unfold(1, 2 * self.margin + 1, 1).flatten(2)
        # (words, characters, num_filters)
        features = self.filters(windows).masked_fill((words == 0).unsqueeze(2), -torch.inf)
        return features.amax(dim=1).relu()
