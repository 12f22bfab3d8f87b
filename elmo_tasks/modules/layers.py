"""Layers that two or more tasks use: context encoders, words from characters, attention, pairs."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules import InputVariationalDropout, TokenEmbedder
from allennlp.nn import Initializer
from allennlp.nn.util import masked_softmax
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.batches import unique_rows
from elmo_tasks.common.machine import run_in_two_threads
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, Size


class BiLstm(nn.Module):
    """
    A bidirectional LSTM over padded batches. Each direction is a fused LSTM of PyTorch; the backward one
    reads each sequence reversed, with the padding still at its end. The result is the same as with
    packed sequences, and takes less time on batches of similar length. Without gradients, a CPU reads each
    direction in a thread of its own, since the operations of a step are too small to be worth many.

    # Parameters

    hidden_sizes : units of each layer, for each direction.
    dropout : probability, on the output of each layer; one mask for all steps of a sequence (Gal and
        Ghahramani 2016, arXiv:1512.05287).
    input_dropout : the same on the input of the first layer; `None`: as `dropout`.
    """

    cell: ClassVar[type[nn.LSTM] | type[nn.GRU]] = nn.LSTM

    def __init__(
        self,
        *,
        input_dim: int,
        hidden_sizes: Sequence[int],
        dropout: float,
        input_dropout: float | None = None,
    ) -> None:
        super().__init__()
        sizes = [input_dim, *(2 * hidden for hidden in hidden_sizes)]
        shapes = list(zip(sizes, hidden_sizes, strict=False))
        self.forward_layers = nn.ModuleList(self.cell(size, hidden) for size, hidden in shapes)
        self.backward_layers = nn.ModuleList(self.cell(size, hidden) for size, hidden in shapes)
        self.input_dropout = _Dropout(dropout if input_dropout is None else input_dropout)
        self.dropout = _Dropout(dropout)
        self.output_dim = sizes[-1]

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens, input_dim)` and mask to `(batch, tokens, output_dim)`, 0 at padding."""
        reverse = _reversed_steps(mask)
        outputs = self.input_dropout(inputs)
        in_threads = inputs.is_cpu and not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
        for layers in zip(self.forward_layers, self.backward_layers, strict=True):
            # (tokens, batch, input)
            run = partial(_run_direction, layers, outputs.transpose(0, 1), reverse, torch.is_grad_enabled())
            both = run_in_two_threads(run) if in_threads else [run(0), run(1)]
            outputs = self.dropout(torch.cat(both, dim=2).transpose(0, 1))
        return outputs * mask.unsqueeze(2)

    def _load_from_state_dict(self, state_dict: dict[str, torch.Tensor], prefix: str, *args: object) -> None:
        """Accepts the old names of the layers in archives; PyTorch calls it."""
        for old, new in (("onward.", "forward_layers."), ("back.", "backward_layers.")):
            for key in [key for key in state_dict if key.startswith(prefix + old)]:
                state_dict[prefix + new + key.removeprefix(prefix + old)] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)


class _Dropout(InputVariationalDropout):
    """Does nothing in evaluation, where AllenNLP's multiplies by ones."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) if self.training else inputs


class BiGru(BiLstm):
    """See `BiLstm`; the recurrent unit comes from Cho et al. 2014, arXiv:1406.1078, as in cuDNN."""

    cell = nn.GRU


def _run_direction(
    layers: Sequence[nn.Module],
    steps: torch.Tensor,
    reverse: torch.Tensor,
    with_gradients: bool,
    direction: int,
    _threads: int = 0,
) -> torch.Tensor:
    """*Shape:* `(tokens, batch, input)` and `_reversed_steps` to `(tokens, batch, hidden)`."""
    # A thread has a setting of its own.
    with torch.set_grad_enabled(with_gradients):
        if direction:
            return _take(layers[1](_take(steps, reverse))[0], reverse)
        return layers[0](steps)[0]


def _reversed_steps(mask: torch.Tensor) -> torch.Tensor:
    """
    Replaces rows of flattened `(tokens, batch)`: real steps are reversed, padding stays. *Shape:* `(batch,
    tokens)` to `(tokens * batch,)`.
    """
    batch, tokens = mask.shape
    lengths = mask.sum(dim=1)
    steps = torch.arange(tokens, device=mask.device).unsqueeze(1)
    sources = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return (sources * batch + torch.arange(batch, device=mask.device)).flatten()


def _take(steps: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(tokens, batch, dim)`, `(tokens * batch,)` to `(tokens, batch, dim)`."""
    return steps.flatten(0, 1).index_select(0, rows).view_as(steps)


@Initializer.register("elmo_orthogonal_gates")
class OrthogonalGates(StrictParams, Initializer):
    """
    Fills the matrix of each gate of an LSTM with an orthogonal one (Saxe et al. 2014, arXiv:1312.6120).
    AllenNLP's `orthogonal` treats all gates as one matrix; its `block_orthogonal` needs the sizes.
    """

    def __call__(self, tensor: torch.Tensor, **kwargs: object) -> None:
        """*Shape:* `(4 * hidden, size)`."""
        for gate in tensor.data.chunk(4):
            nn.init.orthogonal_(gate)


_MAX_CHARACTERS = 1 << 19
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
            raise ConfigurationError(f"width {width} must be odd")
        self.margin = width // 2
        self.namespace = namespace
        self.embedding = nn.Embedding(vocab.get_vocab_size(namespace), embedding_dim, padding_idx=0)
        nn.init.xavier_uniform_(self.embedding.weight)
        with torch.no_grad():
            self.embedding.weight[0].zero_()
        self.filters = nn.Linear(width * embedding_dim, num_filters)

    def get_output_dim(self) -> int:
        return self.filters.out_features

    def extend_vocab(self, extended_vocab: Vocabulary, **_: object) -> None:
        """Initializes the embeddings of characters added to the vocabulary; AllenNLP calls it."""
        old = self.embedding.weight
        vectors = old.new_empty(extended_vocab.get_vocab_size(self.namespace), old.shape[1])
        nn.init.xavier_uniform_(vectors)
        vectors[: len(old)] = old.detach()
        self.embedding = nn.Embedding.from_pretrained(vectors, freeze=not old.requires_grad, padding_idx=0)

    def forward(self, token_characters: torch.Tensor) -> torch.Tensor:
        """*Shape:* ids `(batch, tokens, characters)`, 0 for none, to `(batch, tokens, num_filters)`."""
        batch, tokens, length = token_characters.shape
        if torch.compiler.is_exporting():
            return self._features(token_characters.flatten(0, 1)).view(batch, tokens, -1)
        words, index = unique_rows(token_characters.view(-1, length))
        parts = words.split(max(1, _MAX_CHARACTERS // (length + 2 * self.margin)))
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


def attention(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    Returns the softmax over the keys that the mask allows; other keys have 0, and so has a row without any.
    AllenNLP's default softmax scores padding as 0, so that very low real scores vanish next to it.

    *Shape:* `(..., keys)`, `mask` (booleans) of a shape that broadcasts to it, of as many dimensions.
    """
    return masked_softmax(scores, mask, memory_efficient=True) * mask


def dot_products(left: torch.Tensor, right: torch.Tensor, *, scaled: bool) -> torch.Tensor:
    """
    Returns the product of each left vector with each right one, if `scaled` divided by the square root of
    their size (Vaswani et al. 2017, arXiv:1706.03762). The products of vectors as long as ELMo's differ so
    much that without the division all attention goes to the largest: within a sentence, to the word itself.

    *Shape:* `(batch, left, dim)`, `(batch, right, dim)` to `(batch, left, right)`.
    """
    products = left @ right.mT
    return products / left.size(2) ** 0.5 if scaled else products


def align(
    left: torch.Tensor,
    right: torch.Tensor,
    left_mask: torch.Tensor,
    right_mask: torch.Tensor,
    *,
    scaled: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Returns the attention of each left token to the right ones, by `dot_products`, and the other way round
    (Chen et al. 2017, arXiv:1609.06038, equations (11) to (13)).

    *Shape:* `(batch, left, dim)`, `(batch, right, dim)`, masks `(batch, left)`, `(batch, right)` to `(batch,
    left, right)` and `(batch, right, left)`; the rows and the columns of padding are 0.
    """
    # (batch, left, right)
    scores = dot_products(left, right, scaled=scaled)
    # (batch, left, right)
    mask = left_mask.unsqueeze(2) & right_mask.unsqueeze(1)
    return attention(scores, mask), attention(scores.mT, mask.mT)


def pair_features(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """
    Returns u, v, |u - v| and u * v for the vectors u and v of two texts (Conneau et al. 2017,
    arXiv:1705.02364, section 3.1).

    *Shape:* `(batch, dim)`, both, to `(batch, 4 dim)`.
    """
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)
