"""The bidirectional language model of Peters et al. 2018, section 3: character ids to all layers."""

import hashlib
import json

import torch
from allennlp.common.checks import ConfigurationError
from torch import nn

from elmo_tasks.elmo.char_encoder import CharacterEncoder
from elmo_tasks.elmo.characters import (
    BEGIN_SENTENCE,
    CHARACTERS_PER_WORD,
    END_SENTENCE,
    character_ids,
)
from elmo_tasks.elmo.lstm import LstmState, StackedBiLstm
from elmo_tasks.elmo.weights import BiLmOptions, Source, read_weights

PRECISIONS = ("float32", "bfloat16", "int8")


class BiLm(nn.Module):
    """
    The biLM without its softmax: the encoder that ELMo mixes.

    `BiLm(options=...)` has random weights; `BiLm.read(...)` reads the official layout.

    # Parameters

    options : its sizes.
    precision : of the weights in the products of a frozen biLM; `float32` is exact, `bfloat16` and `int8`
        are faster and are not.
    """

    borders: torch.Tensor

    def __init__(self, *, options: BiLmOptions, precision: str = "float32") -> None:
        super().__init__()
        if precision not in PRECISIONS:
            raise ConfigurationError(f"precision is {precision!r}, expected one of {', '.join(PRECISIONS)}")
        self.options = options
        self.precision = precision
        self.character_encoder = CharacterEncoder(options=options)
        self.lstm = StackedBiLstm(options=options)
        # In 64 bits: distributed training broadcasts buffers, and gloo knows no 16.
        borders = torch.tensor(character_ids([BEGIN_SENTENCE, END_SENTENCE]), dtype=torch.long)
        self.register_buffer("borders", borders, persistent=False)

    @classmethod
    def read(cls, options_file: Source, weight_file: Source, *, precision: str = "float32") -> "BiLm":
        """From paths, URLs or `hf://` names of the official `options.json` and HDF5 weights."""
        bilm = cls(options=BiLmOptions.read(options_file), precision=precision)
        bilm.load_state_dict(read_weights(weight_file, bilm.options))
        return bilm

    @property
    def num_layers(self) -> int:
        """The token layer and the LSTM layers."""
        return self.options.n_layers + 1

    def initial_state(self, batch: int) -> LstmState:
        """Zeros, where the original starts a text."""
        options, like = self.options, self.character_encoder.embedding
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

    def forward(self, ids: torch.Tensor, state: LstmState | None = None) -> tuple[torch.Tensor, LstmState]:
        """
        *Shape:* `ids` `(batch, tokens, 50)`, all 0 behind the end of a sentence. Returns the layers
        `(layers, batch, tokens, 2 projection_dim)`, the token layer first, once for each direction, zero
        behind the end of a sentence; and the state to go on from in a following batch.

        The biLM reads `<S> sentence </S>`; the vectors of the two borders are not returned. A row without
        tokens is left out, and its state stays.
        """
        batch, tokens, _ = ids.shape
        lengths = (ids != 0).any(dim=2).sum(dim=1)
        state = state or self.initial_state(batch)
        if not lengths.any():
            shape = (self.num_layers, batch, tokens, self.options.output_dim)
            return state.hidden.new_zeros(shape), state
        bordered, real = self._with_borders(ids, lengths)
        # (batch, tokens + 2, projection_dim)
        words = self.character_encoder.embedding.new_zeros(
            *real.shape, self.options.projection_dim
        ).masked_scatter(real.unsqueeze(2), self.character_encoder(bordered[real]))
        outputs, state = self.lstm(words, real.sum(dim=1), state)
        # (layers, batch, tokens, 2 projection_dim)
        layers = torch.stack([torch.cat([words, words], dim=2), *outputs])[:, :, 1 : tokens + 1]
        inside = torch.arange(tokens, device=ids.device) < lengths.unsqueeze(1)
        return layers * inside.unsqueeze(2), state

    def _with_borders(self, ids: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The ids with `<S>` and `</S>`, `(batch, tokens + 2, 50)`, and which positions are real."""
        batch, tokens, _ = ids.shape
        bordered = ids.new_zeros(batch, tokens + 2, CHARACTERS_PER_WORD)
        bordered[:, 1:-1] = ids
        rows = torch.arange(batch, device=ids.device)
        begin, end = self.borders.to(ids.dtype)
        bordered[:, 0] = begin
        bordered[rows, lengths + 1] = end
        positions = torch.arange(tokens + 2, device=ids.device)
        real = (positions < lengths.unsqueeze(1) + 2) & (lengths > 0).unsqueeze(1)
        return bordered, real
