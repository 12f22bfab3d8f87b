"""The biLM with weights that stay as they are, as fast as the machine allows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from elmo_tasks.common.batches import batch_sizes
from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.processes import SHARED
from elmo_tasks.elmo.inference.cpu_lstm import marked_steps
from elmo_tasks.elmo.inference.kernels import Kernels
from elmo_tasks.elmo.inference.packed_weights import PRECISIONS
from elmo_tasks.elmo.model.bilm import BiLm, digest, zero_state
from elmo_tasks.elmo.model.characters import word_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder, vocabulary_rows
from elmo_tasks.elmo.model.lstm import LstmState
from elmo_tasks.elmo.model.options import BiLmOptions
from elmo_tasks.elmo.model.weight_file import read_weights

TOKENS_AT_ONCE = 2048
"""Tokens of a batch that are encoded together; of a sentence with more, all."""

_private_state = ContextVar("private_state", default=False)


@contextmanager
def private_state_dict() -> Iterator[None]:
    """
    Within, a `FrozenBiLm` keeps the tensors of a state dict that is loaded, and makes no copies of them.
    """
    token = _private_state.set(True)
    try:
        yield
    finally:
        _private_state.reset(token)


class FrozenBiLm(nn.Module):
    """
    `BiLm`, with the same results and the same state dict, without parameters and gradients.

    A sentence has the same vectors alone, in any batch, and in whatever thread: from eight threads at once as
    from one. Each distinct word is encoded once, and its vector kept. A weight is in memory once: plain, and
    from the first use on in the form in which the device multiplies with it. Autocast does not reach it:
    `precision` says how it multiplies.

    # Parameters

    options : its sizes.
    precision : of its products; `float32` is exact, `bfloat16` is faster and is not.
    weights : by their names in a `BiLm`, kept and not copied. With `None` they come with a state dict.

    # Raises
    `ElmoError`: an unknown `precision`. At the first use: the processor has no such products.
    """

    def __init__(
        self,
        *,
        options: BiLmOptions,
        precision: str = "float32",
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        if precision not in PRECISIONS:
            hint = ": its vectors depended on the batch" if precision == "int8" else ""
            raise ElmoError(f"precision is {precision!r}{hint}, expected one of {', '.join(PRECISIONS)}")
        self.options = options
        self.precision = precision
        # Where the biLM is, and the type that it computes in
        self.register_buffer("_place", torch.empty(0), persistent=False)
        self._weights: dict[str, torch.Tensor] = dict(weights or {})
        # Both are made of the weights when they are first asked for.
        self._kernels: Kernels | None = None
        self._digest: str | None = None

    @classmethod
    def read(
        cls,
        options: BiLmOptions,
        weight_file: FilePath,
        words: Sequence[str] | None = None,
        *,
        precision: str = "float32",
    ) -> "FrozenBiLm":
        """
        A biLM from the official HDF5 weights and, if it reads words, the words of its table.

        # Raises
        `ElmoError`: weights of a biLM that reads words without words, or the reverse; and see `read_weights`.
        """
        bilm = cls(options=options, precision=precision)
        bilm._weights = dict(read_weights(weight_file, options))
        if words is not None:
            buffers = vocabulary_rows(words, number=len(bilm._weights["token_encoder.embedding"]))
            bilm._weights |= {f"token_encoder.{name}": part for name, part in buffers.items()}
        return bilm

    @property
    def num_layers(self) -> int:
        """The token layer and the LSTM layers."""
        return self.options.n_layers + 1

    @property
    def device(self) -> torch.device:
        return cast(torch.Tensor, self._place).device

    @cached_property
    def _blueprint(self) -> BiLm:
        """A biLM of the same sizes without weights: the names and shapes, and how sentences become ids."""
        with torch.device("meta"):
            return BiLm(options=self.options)

    @cached_property
    def _names(self) -> list[str]:
        """The names of the weights, in the order of a `BiLm`'s state dict."""
        return list(self._blueprint.state_dict())

    @property
    def reads(self) -> str:
        """See `TokenEncoder.reads`."""
        return self._blueprint.token_encoder.reads

    @property
    def ids_dtype(self) -> torch.dtype:
        """See `TokenEncoder.dtype`."""
        return self._blueprint.token_encoder.dtype

    def padded_ids(self, sentences: Iterable[Iterable[str]]) -> torch.Tensor:
        """
        *Shape:* `(sentences, longest, *id)`, 0 behind the end of a sentence, on the biLM's device.

        # Raises
        `ElmoError`: a text in the place of its tokens.
        """
        return self._blueprint.token_encoder.padded_ids(sentences).to(self.device)

    def check(self, ids: torch.Tensor) -> None:
        """See `TokenEncoder.check`."""
        self._blueprint.token_encoder.check(ids)

    def knows(self, words: Sequence[str]) -> torch.Tensor:
        """Which words have a vector of their own: all, if the biLM reads characters. *Shape:* `(words,)`."""
        if isinstance(self._blueprint.token_encoder, CharacterEncoder):
            return torch.ones(len(words), dtype=torch.bool)
        return torch.isin(torch.from_numpy(word_ids(words)), self.weights()["token_encoder.known"].cpu())

    def initial_state(self, batch: int) -> LstmState:
        """A state of zeros, from which the original starts a text."""
        return zero_state(self.options, batch, like=cast(torch.Tensor, self._place))

    def digest(self) -> str:
        """A hash that tells biLMs apart whose vectors may differ."""
        with SHARED:
            if self._digest is None:
                self._digest = digest(self.options, self.weights().items(), self.precision)
            return self._digest

    def forget_words(self) -> None:
        """Empties the cache of words."""
        if self._kernels is not None:
            self._kernels.token_layer.forget_words()

    def forward(self, ids: torch.Tensor, state: LstmState | None = None) -> tuple[torch.Tensor, LstmState]:
        """See `BiLm.forward`."""
        # Not in inference mode: nothing could be written into its tensors below
        with torch.inference_mode(False):
            after = LstmState(*(part.detach().clone() for part in state or self.initial_state(len(ids))))

        def run(kernels: Kernels, part: "_Part") -> list[torch.Tensor]:
            marked, is_token = marked_steps(part.ids, part.lengths, kernels.bos_eos_ids)
            before = LstmState(after.hidden[:, :, part.rows], after.cell[:, :, part.rows])
            vectors, index, outputs, ended = kernels.run(marked, part.lengths + 2, before)
            after.hidden[:, :, part.rows], after.cell[:, :, part.rows] = ended
            return [vectors[index[is_token]].repeat(1, 2), *(output[is_token] for output in outputs)]

        return self._in_parts(ids, run), after

    def encode(self, ids: torch.Tensor, start: LstmState | None = None) -> torch.Tensor:
        """See `BiLm.encode`."""

        def run(kernels: Kernels, part: "_Part") -> list[torch.Tensor]:
            # The step over its first mark is the same for all sentences, and nobody needs the last.
            behind_mark = kernels.state_after_bos(start or self.initial_state(1))
            before = LstmState(*(half.expand(-1, -1, len(part.rows), -1) for half in behind_mark))
            vectors, index, outputs, _ = kernels.run(
                part.ids[kernels.present(part.ids)], part.lengths, before
            )
            return [vectors[index].repeat(1, 2), *outputs]

        return self._in_parts(ids, run)

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights by their names in a `BiLm`; packed ones are unpacked into new tensors."""
        with SHARED:
            # Packing empties `_weights`: so they are copied before the lock is let go
            weights = self._weights if self._kernels is None else self._kernels.weights()
            return {name: weights[name] for name in self._names if name in weights}

    def to_trainable(self) -> BiLm:
        """A biLM of its own with the same weights, to be read or trained."""
        bilm = BiLm(options=self.options)
        bilm.load_state_dict(self.weights())
        return bilm

    def prepare(self) -> None:
        """
        Packs the weights; else the first use does it.

        # Raises
        `ElmoError`: the processor has no products of this precision, or there are no weights yet.
        """
        self._prepared()

    def _prepared(self) -> Kernels:
        kernels = self._kernels
        if kernels is not None:
            return kernels
        with SHARED:
            if self._kernels is None:
                if not self._weights:
                    raise ElmoError("the biLM has no weights yet, expected a state dict to be loaded first")
                # What is made must be of use outside of inference mode, too.
                with torch.inference_mode(False), torch.no_grad():
                    # Those of a file are float32, whatever the default.
                    for name, weight in self._weights.items():
                        self._weights[name] = self._placed(weight)
                    self._kernels = Kernels(self._blueprint, self._weights, self.precision)
            return self._kernels

    def _in_parts(self, ids: torch.Tensor, run: "_Run") -> torch.Tensor:
        """
        The layers of a batch, in parts of few tokens, so that little but the result grows with the batch.
        """
        self.check(ids)
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            torch.autocast(ids.device.type, enabled=False),
        ):
            kernels = self._prepared()
            batch, tokens = ids.shape[:2]
            lengths = kernels.present(ids).sum(dim=1)
            nothing = cast(torch.Tensor, self._place).new_zeros(tokens, self.options.output_dim)
            # The vectors of each sentence, layer by layer; one more makes the padding as long as the batch's
            sentences = [nothing[:0]] * (self.num_layers * batch) + [nothing]
            for rows in _parts(lengths, TOKENS_AT_ONCE):
                part = _Part(ids[rows, : int(lengths[rows].max())], rows, lengths[rows])
                for layer, vectors in enumerate(run(kernels, part)):
                    split = vectors.split(part.lengths.tolist())
                    for row, sentence in zip(rows.tolist(), split, strict=True):
                        sentences[layer * batch + row] = sentence
            padded = pad_sequence(sentences, batch_first=True)[:-1]
            return padded.view(self.num_layers, batch, tokens, self.options.output_dim)

    # As a module: its state dict is that of a `BiLm`

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "FrozenBiLm":
        """PyTorch's hook for moving a module."""
        with SHARED:
            self._weights = {name: fn(weight) for name, weight in self.weights().items()}
            self._kernels = self._digest = None
            return cast(FrozenBiLm, super()._apply(fn, recurse))

    def _save_to_state_dict(self, destination: dict[str, torch.Tensor], prefix: str, keep_vars: bool) -> None:
        for name, weight in self.weights().items():
            destination[prefix + name] = weight

    def _load_from_state_dict(
        self,
        state_dict: dict[str, torch.Tensor],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        expected = self._blueprint.state_dict()
        weights = {}
        for name, shaped in expected.items():
            weight = state_dict.get(prefix + name)
            if weight is None:
                missing_keys.append(prefix + name)
            elif weight.shape != shaped.shape:
                error_msgs.append(
                    f"{prefix}{name} has the shape {tuple(weight.shape)}, expected {tuple(shaped.shape)}"
                )
            else:
                weight = weight.detach()
                placed = self._placed(weight)
                is_ours = placed is not weight or _private_state.get()
                weights[name] = placed if is_ours else placed.clone()
        surplus = (key for key in state_dict if key.startswith(prefix) and key[len(prefix) :] not in expected)
        unexpected_keys += surplus if strict else []
        with SHARED:
            unchanged = self.weights() if len(weights) < len(expected) else {}
            self._weights, self._kernels, self._digest = unchanged | weights, None, None

    def _placed(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight on this device and in the type computed in; the same one, where it is so already."""
        place = cast(torch.Tensor, self._place)
        return weight.to(place.device, place.dtype if weight.is_floating_point() else weight.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """A copy packs its own weights."""
        return {**self.__dict__, "_weights": self.weights(), "_kernels": None}


class _Part(NamedTuple):
    """Some rows of a batch."""

    ids: torch.Tensor
    """`(rows, tokens, *id)`"""
    rows: torch.Tensor
    """`(rows,)`: where they are in the batch."""
    lengths: torch.Tensor
    """`(rows,)`, none of them 0."""


_Run = Callable[[Kernels, _Part], list[torch.Tensor]]
"""Computes each layer of a part, `(tokens, 2 projection_dim)`, the sentences end to end."""


def _parts(lengths: torch.Tensor, most: int) -> Iterable[torch.Tensor]:
    """The rows with tokens, in parts of at most so many tokens, if need be by length: `(rows,)` each."""
    rows = lengths.nonzero().squeeze(1)
    if int(lengths.sum()) <= most:
        return [rows] if len(rows) else []
    rows = rows[lengths[rows].argsort(stable=True)]
    return rows.split(list(batch_sizes(lengths[rows].tolist(), most, padded=False)))
