"""The bidirectional language model of Peters et al. 2018, section 3: words to all layers."""

import hashlib
import json
from collections.abc import Iterable

import torch
from torch import nn

from elmo_tasks.common.errors import FilePath
from elmo_tasks.elmo.model.encoders import CharacterEncoder, UnicodeEncoder, WordEncoder
from elmo_tasks.elmo.model.lstm import LstmState, StackedBiLstm, as_bytes
from elmo_tasks.elmo.model.options import BiLmOptions, CharacterOptions
from elmo_tasks.elmo.model.weight_file import read_weights


class BiLm(nn.Module):
    """
    The biLM without its softmax, in plain PyTorch: right, slow, and the reference of what runs it fast
    (`elmo_tasks.elmo.inference`). A new one has random weights.

    Its token layer reads characters or words, as the options say: `*id` below is `50` for characters, and
    nothing for words.

    # Parameters

    options : its sizes.
    """

    token_encoder: CharacterEncoder | WordEncoder

    def __init__(self, *, options: BiLmOptions) -> None:
        super().__init__()
        self.options = options
        size = options.projection_dim
        if isinstance(options.tokens, CharacterOptions):
            kind = CharacterEncoder if options.tokens.dictionaries is None else UnicodeEncoder
            self.token_encoder = kind(options=options.tokens, projection_dim=size)
        else:
            self.token_encoder = WordEncoder(options=options.tokens, projection_dim=size)
        self.lstm = StackedBiLstm(options=options)

    @property
    def reads(self) -> str:
        """See `TokenEncoder.reads`."""
        return self.token_encoder.reads

    @property
    def num_layers(self) -> int:
        """The token layer and the LSTM layers."""
        return self.options.n_layers + 1

    @torch.no_grad()
    def load_weights(self, weight_file: FilePath) -> None:
        """
        Takes over the weights of an official HDF5 file, one after the other: they are large.

        # Raises
        `ElmoError`: see `read_weights`.
        """
        for name, weight in read_weights(weight_file, self.options):
            self.get_parameter(name).copy_(weight)

    def initial_state(self, batch: int) -> LstmState:
        """A state of zeros, from which the original starts a text."""
        return zero_state(self.options, batch, like=self.token_encoder.embedding)

    def padded_ids(self, sentences: Iterable[Iterable[str]]) -> torch.Tensor:
        """
        *Shape:* `(sentences, longest, *id)`, 0 behind the end of a sentence, on the biLM's device.

        # Raises
        `ElmoError`: a text in the place of its tokens.
        """
        return self.token_encoder.padded_ids(sentences).to(self.token_encoder.embedding.device)

    def digest(self) -> str:
        """A hash that tells biLMs apart whose vectors may differ."""
        return digest(self.options, self.state_dict().items())

    def forward(self, ids: torch.Tensor, state: LstmState | None = None) -> tuple[torch.Tensor, LstmState]:
        """
        Each row of a batch goes on where the same row of the batch before ended, as in the original.

        *Shape:* `ids` `(batch, tokens, *id)`, all 0 behind the end of a sentence. Returns the layers
        `(layers, batch, tokens, 2 projection_dim)`, the token layer first, once for each direction, zero
        behind the end of a sentence; and the state to go on from in a following batch.

        The biLM reads `<S> sentence </S>`; the vectors of the two marks are not returned. A row without
        tokens is left out, and its state stays.
        """
        self.token_encoder.check(ids)
        # (batch, tokens), (batch,)
        present = self.token_encoder.present(ids)
        lengths = present.sum(dim=1)
        # (batch, tokens + 2, *id), (batch,)
        marked = with_bos_eos(ids, lengths, self.token_encoder.bos_eos_ids)
        steps = (lengths + 2) * (lengths > 0)
        vectors = self.token_encoder(marked.flatten(0, 1)).unflatten(0, marked.shape[:2])
        outputs, state = self.lstm(vectors, steps, state or self.initial_state(len(ids)))
        # (layers, batch, tokens + 2, 2 projection_dim)
        layers = torch.stack([vectors.repeat(1, 1, 2), *outputs])
        return layers[:, :, 1:-1] * present.unsqueeze(2), state

    def encode(self, ids: torch.Tensor, start: LstmState | None = None) -> torch.Tensor:
        """
        Each sentence on its own, so that its vectors are the same in any batch.

        *Shape:* as `forward`; `start` is where every sentence starts, of a batch of one, or `None` for zeros.
        """
        start = start or self.initial_state(1)
        return self(ids, LstmState(*(part.expand(-1, -1, len(ids), -1) for part in start)))[0]


def zero_state(options: BiLmOptions, batch: int, *, like: torch.Tensor) -> LstmState:
    """A state of zeros, on the device and of the type of `like`."""
    shape = (options.n_layers, 2, batch)
    return LstmState(like.new_zeros(*shape, options.projection_dim), like.new_zeros(*shape, options.dim))


def digest(
    options: BiLmOptions, weights: Iterable[tuple[str, torch.Tensor]], precision: str = "float32"
) -> str:
    """A hash of options, weights, and the precision of the products."""
    hashed = hashlib.blake2b(digest_size=16)
    hashed.update(json.dumps([options.to_json(), precision]).encode())
    for name, weight in sorted(weights):
        hashed.update(name.encode())
        hashed.update(as_bytes(weight))
    return hashed.hexdigest()


def with_bos_eos(ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor) -> torch.Tensor:
    """
    Puts `<S>` before each sentence and `</S>` behind it.

    *Shape:* ids `(batch, tokens, *id)` of `lengths` `(batch,)`, and `(2, *id)`, to `(batch, tokens + 2,
    *id)`.
    """
    batch, tokens = ids.shape[:2]
    begin, end = bos_eos_ids.to(ids.dtype)
    marked = ids.new_zeros(batch, tokens + 2, *ids.shape[2:])
    marked[:, 0] = begin
    marked[:, 1:-1] = ids
    marked[torch.arange(batch, device=ids.device), lengths + 1] = end
    return marked
