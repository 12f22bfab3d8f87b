"""The bidirectional language model of Peters et al. 2018, section 3: from words to all layers."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from elmo_tasks.common.errors import FilePath
from elmo_tasks.elmo.model.encoders import CharacterEncoder, Token, UnicodeEncoder, WordEncoder
from elmo_tasks.elmo.model.lstm import LstmState, StackedBiLstm
from elmo_tasks.elmo.model.options import BiLmOptions, CharacterOptions
from elmo_tasks.elmo.model.weight_file import read_weights

_OBSERVER = "allennlp.confidence_checks.normalization_bias_verification"
"""Its hooks only look on. AllenNLP's trainer gives one to each module for the first batches."""


class BiLm(nn.Module):
    """
    The biLM without its softmax, in plain PyTorch: right, slow, and the reference for the engine
    (`elmo_tasks.elmo.inference`). A new one has random weights.

    Its token layer reads characters or words, as the options say. In the shapes below, `*id` is `50` for
    characters, and nothing for words.
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

    def forward(self, ids: torch.Tensor, state: LstmState | None = None) -> tuple[torch.Tensor, LstmState]:
        """
        Continues each row from the state of the row in the batch before, as in the original.

        The biLM reads `<S> sentence </S>`; the vectors of these two are not returned. A row without
        tokens is left out, and its state stays.

        *Shape:* `ids` `(batch, tokens, *id)`, all 0 after the end of a sentence. Returns the layers
        `(layers, batch, tokens, 2 projection_dim)`, the token layer first, once for each direction, zero
        after the end of a sentence; and the state for the next batch.
        """
        # (batch, tokens), (batch,)
        present = self.token_encoder.checked_present(ids)
        lengths = present.sum(dim=1)
        # (batch, tokens + 2, *id), (batch,)
        extended = with_bos_eos(ids, lengths, self.token_encoder.bos_eos_ids)
        steps = (lengths + 2) * (lengths > 0)
        vectors = self.token_encoder(extended.flatten(0, 1)).unflatten(0, extended.shape[:2])
        outputs, state = self.lstm(vectors, steps, state or self.initial_state(ids.size(0)))
        # (layers, batch, tokens + 2, 2 projection_dim)
        layers = torch.stack([vectors.repeat(1, 1, 2), *outputs])
        return layers[:, :, 1:-1] * present.unsqueeze(2), state

    def encode(self, ids: torch.Tensor, start: LstmState | None = None) -> torch.Tensor:
        """
        Encodes each sentence on its own, so that its vectors are the same in any batch. *Shape:* as
        `forward`; `start` is the state that every sentence starts from, of a batch of one, or `None` for
        zeros.
        """
        start = start or self.initial_state(1)
        return self(ids, LstmState(*(part.expand(-1, -1, ids.size(0), -1) for part in start)))[0]

    @property
    def reads(self) -> str:
        return self.token_encoder.reads

    @property
    def num_layers(self) -> int:
        """The number of layers: the token layer and the LSTM layers."""
        return self.options.n_layers + 1

    def initial_state(self, batch: int) -> LstmState:
        """Returns a state of zeros, from which the original starts a text."""
        return zero_state(self.options, batch, like=self.token_encoder.embedding)

    def padded_ids(self, sentences: Iterable[Iterable[str | Token]]) -> torch.Tensor:
        """Returns the ids of sentences, see `TokenEncoder.padded_ids`, on the biLM's device."""
        return self.token_encoder.padded_ids(sentences).to(self.token_encoder.embedding.device)

    @torch.no_grad()
    def load_weights(self, weight_file: FilePath) -> None:
        """Loads the weights of a file in the official layout, one by one to save memory."""
        for name, weight in read_weights(weight_file, self.options):
            self.get_parameter(name).copy_(weight)

    def digest(self) -> str:
        """Returns a hash that tells biLMs apart whose vectors may differ."""
        return digest(self.options, self.state_dict().items())


def with_bos_eos(ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor) -> torch.Tensor:
    """
    Puts `<S>` before each sentence and `</S>` after it. *Shape:* ids `(batch, tokens, *id)` of `lengths`
    `(batch,)`, and `(2, *id)`, to `(batch, tokens + 2, *id)`.
    """
    batch, tokens = ids.shape[:2]
    begin, end = bos_eos_ids.to(ids)
    extended = ids.new_zeros(batch, tokens + 2, *ids.shape[2:])
    extended[:, 0] = begin
    extended[:, 1:-1] = ids
    extended[torch.arange(batch, device=ids.device), lengths + 1] = end
    return extended


def zero_state(options: BiLmOptions, batch: int, *, like: torch.Tensor) -> LstmState:
    shape = (options.n_layers, 2, batch)
    return LstmState(like.new_zeros(*shape, options.projection_dim), like.new_zeros(*shape, options.dim))


def structure(module: nn.Module) -> dict[str, Any]:
    """
    Describes all modules within a module by their names: the class, the weights, and whether it has hooks or
    a `forward` of its own. Adapters, parametrizations, pruned and quantized weights make a difference.
    """
    return {
        name: (
            type(part),
            {name: None if weight is None else weight.shape for name, weight in part._parameters.items()},
            set(part._buffers),
            has_hooks(part) or "forward" in vars(part),
        )
        for name, part in module.named_modules()
    }


def has_hooks(module: nn.Module) -> bool:
    """Returns whether a module has hooks of its calls that may change what it computes."""
    return any(
        getattr(hook, "__module__", None) != _OBSERVER
        for kind in ("forward", "forward_pre", "backward", "backward_pre")
        for hook in getattr(module, f"_{kind}_hooks").values()
    )


def digest(
    options: BiLmOptions, weights: Iterable[tuple[str, torch.Tensor]], precision: str = "float32"
) -> str:
    """Returns a hash of options, weights, and the precision of the products."""
    hashed = hashlib.blake2b(digest_size=16)
    hashed.update(json.dumps([options.to_json(), precision]).encode())
    for name, weight in sorted(weights):
        hashed.update(name.encode())
        hashed.update(weight.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return hashed.hexdigest()
