"""The bidirectional language model of Peters et al. 2018, section 3: words to all layers."""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from allennlp.common.checks import ConfigurationError
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from elmo_tasks.elmo.char_encoder import WORDS, CharacterEncoder
from elmo_tasks.elmo.linear import FrozenLinear, Linear
from elmo_tasks.elmo.lstm import LstmState, StackedBiLstm
from elmo_tasks.elmo.weights import BiLmOptions, CharacterOptions, Source, read_weights
from elmo_tasks.elmo.word_encoder import WordEncoder
from elmo_tasks.elmo.words import read_words

PRECISIONS = ("float32", "bfloat16", "int8")
TOKENS_AT_ONCE = 2048
"""Tokens of a batch that are encoded together; of a sentence with more, all."""


class BiLm(nn.Module):
    """
    The biLM without its softmax: the encoder that ELMo mixes.

    `BiLm(options=...)` has random weights; `BiLm.read(...)` reads the official layout. Its token layer reads
    characters or words, as the options say: `*id` below is `50` for characters, and nothing for words.

    # Parameters

    options : its sizes.
    precision : of the weights in the products of a frozen biLM; `float32` is exact, `bfloat16` and `int8`
        are faster and are not.
    """

    token_encoder: CharacterEncoder | WordEncoder

    def __init__(self, *, options: BiLmOptions, precision: str = "float32") -> None:
        super().__init__()
        if precision not in PRECISIONS:
            raise ConfigurationError(f"precision is {precision!r}, expected one of {', '.join(PRECISIONS)}")
        self.options = options
        self.precision = precision
        self._frozen = FrozenLinear(precision=precision)
        if isinstance(options.tokens, CharacterOptions):
            self.token_encoder = CharacterEncoder(
                options=options.tokens, projection_dim=options.projection_dim
            )
        else:
            self.token_encoder = WordEncoder(options=options.tokens, projection_dim=options.projection_dim)
        self.lstm = StackedBiLstm(options=options)

    @classmethod
    def read(
        cls,
        options_file: Source,
        weight_file: Source,
        vocabulary_file: Source | None = None,
        *,
        precision: str = "float32",
    ) -> "BiLm":
        """
        From paths, URLs or `hf://` names of the official `options.json`, HDF5 weights and, for a biLM that
        reads words, its vocabulary.
        """
        bilm = cls(options=BiLmOptions.read(options_file), precision=precision)
        bilm.load(weight_file, vocabulary_file)
        return bilm

    def load(self, weight_file: Source | None, vocabulary_file: Source | None = None) -> None:
        """
        Takes over the words of a vocabulary, and the weights of an official HDF5 file.

        # Raises
        `ConfigurationError`: weights of a biLM that reads words without a vocabulary, a vocabulary for one
        that reads characters, and whatever reading the files raises.
        """
        if isinstance(self.token_encoder, CharacterEncoder):
            if vocabulary_file is not None:
                raise ConfigurationError(
                    f"found a vocabulary_file, {vocabulary_file}, expected none: the biLM reads characters"
                )
        elif vocabulary_file is not None:
            self.token_encoder.know(read_words(vocabulary_file))
        elif weight_file is not None:
            raise ConfigurationError(
                f"{weight_file}: the biLM reads words, expected also its vocabulary_file, one word a line"
            )
        if weight_file is not None:
            self.load_weights(weight_file)

    @torch.no_grad()
    def load_weights(self, weight_file: Source) -> None:
        """
        Takes over the weights of an official HDF5 file, one after the other: they are large.

        # Raises
        `ConfigurationError`: see `read_weights`.
        """
        for name, weight in read_weights(weight_file, self.options):
            self.get_parameter(name).copy_(weight)

    @property
    def num_layers(self) -> int:
        """The token layer and the LSTM layers."""
        return self.options.n_layers + 1

    def initial_state(self, batch: int) -> LstmState:
        """Zeros, where the original starts a text."""
        options, like = self.options, self.token_encoder.embedding
        shape = (options.n_layers, 2, batch)
        return LstmState(like.new_zeros(*shape, options.projection_dim), like.new_zeros(*shape, options.dim))

    def digest(self) -> str:
        """Tells biLMs apart whose vectors may differ: a hash of options, precision and weights."""
        hashed = hashlib.blake2b(digest_size=16)
        hashed.update(json.dumps([self.options.to_json(), self.precision]).encode())
        for name, weight in sorted(self.state_dict().items()):
            hashed.update(name.encode())
            hashed.update(weight.detach().cpu().contiguous().numpy())
        return hashed.hexdigest()

    def forget_words(self) -> None:
        """Empties the cache of words."""
        self._frozen.forget(WORDS)

    def forward(self, ids: torch.Tensor, state: LstmState | None = None) -> tuple[torch.Tensor, LstmState]:
        """
        Each row of a batch goes on where the same row of the batch before ended, as in the original.

        *Shape:* `ids` `(batch, tokens, *id)`, all 0 behind the end of a sentence. Returns the layers
        `(layers, batch, tokens, 2 projection_dim)`, the token layer first, once for each direction, zero
        behind the end of a sentence; and the state to go on from in a following batch.

        The biLM reads `<S> sentence </S>`; the vectors of the two borders are not returned. A row without
        tokens is left out, and its state stays.
        """
        state = state or self.initial_state(len(ids))
        state = LstmState(*(part.detach().clone() for part in state))

        def run(part: _Part, linear: Linear) -> list[torch.Tensor]:
            positions = torch.arange(part.ids.size(1) + 2, device=ids.device)
            ends = part.lengths.unsqueeze(1) + 1
            words = self._with_borders(part)[positions <= ends]
            taken = ((positions > 0) & (positions < ends))[positions <= ends]
            vectors, index = self.token_encoder(words, linear)
            start = LstmState(state.hidden[:, :, part.rows], state.memory[:, :, part.rows])
            outputs, ended = self.lstm(vectors, index, part.lengths + 2, start, linear)
            state.hidden[:, :, part.rows] = ended.hidden.detach()
            state.memory[:, :, part.rows] = ended.memory.detach()
            return [vectors[index[taken]].repeat(1, 2), *(output[taken] for output in outputs)]

        return self._in_parts(ids, run), state

    def encode(self, ids: torch.Tensor, start: LstmState | None = None) -> torch.Tensor:
        """
        Each sentence on its own, so that its vectors are the same in any batch.

        *Shape:* as `forward`; `start` is where every sentence starts, of a batch of one, or `None` for zeros.
        """
        begin = partial(self._begin, start or self.initial_state(1))

        def run(part: _Part, linear: Linear) -> list[torch.Tensor]:
            # The step over its first border is the same for all sentences, and nobody needs the last.
            begun = linear.derived("begun", partial(begin, linear), *(start or ()))
            state = LstmState(*(half.expand(-1, -1, len(part.rows), -1) for half in begun))
            words = part.ids[self.token_encoder.present(part.ids)]
            vectors, index = self.token_encoder(words, linear)
            outputs, _ = self.lstm(vectors, index, part.lengths, state, linear)
            return [vectors[index].repeat(1, 2), *outputs]

        return self._in_parts(ids, run)

    def _begin(self, start: LstmState, linear: Linear) -> LstmState:
        """From the start over the first border: `<S>` forward and `</S>` backward, for a batch of one."""
        vectors, index = self.token_encoder(self.token_encoder.borders, linear)
        state = LstmState(*(part.expand(-1, -1, 2, -1) for part in start))
        _, (hidden, memory) = self.lstm(vectors, index, torch.ones_like(index), state, linear)
        # Of the two sequences of one step, the one that each direction begins with
        return LstmState(*(torch.stack([part[:, 0, :1], part[:, 1, 1:]], dim=1) for part in (hidden, memory)))

    def _in_parts(self, ids: torch.Tensor, run: "_Run") -> torch.Tensor:
        """
        The layers of a batch, with frozen weights computed in parts of few tokens, so that little but the
        result grows with the batch.
        """
        expected, found = self.token_encoder.borders.shape[1:], ids.shape[2:]
        if expected != found:
            raise ConfigurationError(
                f"the biLM reads {self.token_encoder.reads}: found ids of shape {tuple(ids.shape)}, expected "
                f"{('batch', 'tokens', *expected)}"
            )
        weights = tuple(self.parameters())
        # (batch,)
        lengths = self.token_encoder.present(ids).sum(dim=1)
        if any(weight.requires_grad for weight in weights):
            return self._run_trained(ids, lengths, run)
        self._frozen.renew((*weights, *self.token_encoder.buffers(recurse=False)))
        # What is remembered must be of use outside of inference_mode, too.
        with torch.inference_mode(False), torch.no_grad():
            return self._run_frozen(ids, lengths, run)

    def _run_trained(self, ids: torch.Tensor, lengths: torch.Tensor, run: "_Run") -> torch.Tensor:
        batch, tokens = ids.shape[:2]
        layers = self.token_encoder.embedding.new_zeros(
            self.num_layers, batch, tokens, self.options.output_dim
        )
        rows = lengths.nonzero().squeeze(1)
        if not len(rows):
            return layers
        found = run(_Part(ids[rows], rows, lengths[rows]), Linear())
        inside = torch.arange(tokens, device=ids.device) < lengths.unsqueeze(1)
        return layers.masked_scatter(inside.unsqueeze(2), torch.stack(found))

    def _run_frozen(self, ids: torch.Tensor, lengths: torch.Tensor, run: "_Run") -> torch.Tensor:
        batch, tokens = ids.shape[:2]
        nothing = self.token_encoder.embedding.new_zeros(tokens, self.options.output_dim)
        # Of all layers, the vectors of each sentence; one more makes the padding as long as the batch's
        sentences = [nothing[:0]] * (self.num_layers * batch) + [nothing]
        for rows in _parts(lengths, TOKENS_AT_ONCE):
            part = _Part(ids[rows, : int(lengths[rows].max())], rows, lengths[rows])
            for layer, vectors in enumerate(run(part, self._frozen)):
                found = vectors.split(part.lengths.tolist())
                for row, sentence in zip(rows.tolist(), found, strict=True):
                    sentences[layer * batch + row] = sentence
        padded = pad_sequence(sentences, batch_first=True)[:-1]
        return padded.view(self.num_layers, batch, tokens, self.options.output_dim)

    def _with_borders(self, part: "_Part") -> torch.Tensor:
        """*Shape:* the ids with `<S>` and `</S>`, `(batch, tokens + 2, *id)`."""
        batch, tokens = part.ids.shape[:2]
        begin, end = self.token_encoder.borders.to(part.ids.dtype)
        bordered = part.ids.new_zeros(batch, tokens + 2, *part.ids.shape[2:])
        bordered[:, 0] = begin
        bordered[:, 1:-1] = part.ids
        bordered[torch.arange(batch, device=part.ids.device), part.lengths + 1] = end
        return bordered

    def _apply(self, *args: Any, **kwargs: Any) -> "BiLm":
        """PyTorch's hook for moving a module: nothing of the old place is kept."""
        self._frozen.clear()
        return super()._apply(*args, **kwargs)


class _Part(NamedTuple):
    """Some rows of a batch."""

    ids: torch.Tensor
    """`(rows, tokens, *id)`"""
    rows: torch.Tensor
    """`(rows,)`: where they are in the batch."""
    lengths: torch.Tensor
    """`(rows,)`, none of them 0."""


_Run = Callable[[_Part, Linear], list[torch.Tensor]]
"""To each layer of a part, `(tokens, 2 projection_dim)`, the sentences end to end."""


def _parts(lengths: torch.Tensor, most: int) -> Iterator[torch.Tensor]:
    """The rows with tokens, in parts of at most so many tokens, if need be by length: `(rows,)` each."""
    rows = lengths.nonzero().squeeze(1)
    if not len(rows):
        return
    if int(lengths.sum()) <= most:
        yield rows
        return
    rows = rows[lengths[rows].argsort(stable=True)]
    total = lengths[rows].cumsum(0)
    start = 0
    while start < len(rows):
        before = int(total[start - 1]) if start else 0
        end = max(start + 1, int(torch.searchsorted(total, before + most, right=True)))
        yield rows[start:end]
        start = end
