"""
The frozen biLM, whose weights do not change, and which runs as fast as the machine allows.

`FrozenBiLm` is the module. At the first use it gives its weights to `Kernels`, which packs them for the
device.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from io import BytesIO
from threading import RLock
from typing import Any, cast

import torch
from torch import nn

from elmo_tasks.common.batches import batch_sizes
from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.machine import CACHES_LOCK, limit_forks_to_one_thread
from elmo_tasks.common.packed_weights import check_precision, pack
from elmo_tasks.elmo.inference.cell import FrozenLstm, PackedLayer
from elmo_tasks.elmo.inference.character_cnn import FrozenTokens
from elmo_tasks.elmo.inference.cpu_lstm import CpuLstm
from elmo_tasks.elmo.inference.cuda_lstm import CudaLstm
from elmo_tasks.elmo.inference.layout import read_steps, state_after_bos
from elmo_tasks.elmo.model.bilm import BiLm, digest, has_hooks, zero_state
from elmo_tasks.elmo.model.characters import word_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder, vocabulary_rows
from elmo_tasks.elmo.model.lstm import LstmState
from elmo_tasks.elmo.model.options import BiLmOptions
from elmo_tasks.elmo.model.weight_file import read_weights

TOKENS_PER_PART = 2048
"""The number of tokens that are encoded together; a longer sentence is encoded whole."""

_private_state = ContextVar("private_state", default=False)


@contextmanager
def private_state_dict() -> Iterator[None]:
    """Inside the block, a `FrozenBiLm` keeps the tensors of a state dict that it loads, without a copy."""
    token = _private_state.set(True)
    try:
        yield
    finally:
        _private_state.reset(token)


class FrozenBiLm(nn.Module):
    """
    `BiLm`, with the same results and the same state dict, without parameters and gradients.

    A sentence has the same vectors alone, in any batch, and in each of several threads. Each distinct word
    is encoded once, and its vector cached. From the first use on, the weights are packed for the device: in
    float32 on a CPU they are in memory once, except that the LSTM of a small biLM has a copy for lone
    sentences; in bfloat16 their originals are kept, too; on a GPU the LSTM has a copy. Autocast has no
    effect: `precision` is the type of the products.

    # Parameters

    precision : of its products; `float32` is exact, `bfloat16` is faster and is not. If the processor has no
        such products, the first use is an `ElmoError`.
    weights : by their names in a `BiLm`, kept and not copied. With `None`, a state dict is loaded later.
    """

    _blueprint: BiLm
    """A biLM of the same sizes without weights: it has their names and shapes, and makes ids."""

    def __init__(
        self,
        *,
        options: BiLmOptions,
        precision: str = "float32",
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        limit_forks_to_one_thread()
        check_precision(precision)
        self.options = options
        self.precision = precision
        self.num_layers = options.n_layers + 1
        # Has the device and the type of the biLM.
        self.register_buffer("_reference", torch.empty(0), persistent=False)
        self._weights: dict[str, torch.Tensor] = dict(weights or {})
        # Made of the weights at the first use
        self._kernels: Kernels | None = None
        self._digest: str | None = None
        self._make_blueprint()

    def _make_blueprint(self) -> None:
        # Set as usual, it would be a submodule.
        with torch.device("meta"):
            self.__dict__["_blueprint"] = BiLm(options=self.options)

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
        Reads weights in the official layout; for errors see `read_weights`. A biLM that reads words also
        needs the words of its table.
        """
        bilm = cls(options=options, precision=precision)
        bilm._weights = dict(read_weights(weight_file, options))
        if words is not None:
            buffers = vocabulary_rows(words, num_rows=len(bilm._weights["token_encoder.embedding"]))
            bilm._weights |= {f"token_encoder.{name}": part for name, part in buffers.items()}
        return bilm

    @property
    def device(self) -> torch.device:
        return cast(torch.Tensor, self._reference).device

    @property
    def reads(self) -> str:
        return self._blueprint.token_encoder.reads

    @property
    def ids_dtype(self) -> torch.dtype:
        return self._blueprint.token_encoder.dtype

    def padded_ids(self, sentences: Iterable[Iterable[str]]) -> torch.Tensor:
        """See `BiLm.padded_ids`. *Shape:* `(sentences, longest, *id)`, 0 after the end of a sentence."""
        return self._blueprint.token_encoder.padded_ids(sentences).to(self.device)

    def check(self, ids: torch.Tensor) -> None:
        self._blueprint.token_encoder.checked_present(ids)

    def knows(self, words: Sequence[str]) -> torch.Tensor:
        """Returns which words have a vector; all do if the biLM reads characters. *Shape:* `(words,)`."""
        if isinstance(self._blueprint.token_encoder, CharacterEncoder):
            return torch.ones(len(words), dtype=torch.bool)
        return torch.isin(torch.from_numpy(word_ids(words)), self.weights()["token_encoder.known"].cpu())

    def initial_state(self, batch: int) -> LstmState:
        """Returns a state of zeros, from which the original starts a text."""
        return zero_state(self.options, batch, like=cast(torch.Tensor, self._reference))

    def digest(self) -> str:
        with CACHES_LOCK:
            if self._digest is None:
                self._digest = digest(self.options, self.weights().items(), self.precision)
            return self._digest

    def clear_word_cache(self) -> None:
        # Another thread may load weights in between.
        if (kernels := self._kernels) is not None:
            kernels.token_layer.clear_word_cache()

    def forward(
        self, ids: torch.Tensor, state: LstmState | None = None, has_bos_eos: bool = False
    ) -> tuple[torch.Tensor, LstmState]:
        """See `BiLm.forward`. With `has_bos_eos` the ids already have BOS and EOS, which get vectors, too."""
        present = self._blueprint.token_encoder.checked_present(ids)
        # Tensors that are made in inference mode could not be written into.
        with torch.inference_mode(False), torch.no_grad(), _without_autocast(ids.device.type):
            kernels, layers = self.prepare(), self._zero_layers(present)
            after = LstmState(*(part.detach().clone() for part in state or self.initial_state(len(ids))))
            for rows, lengths, positions in _parts(present):
                before = LstmState(after.hidden[:, :, rows], after.cell[:, :, rows])
                part_ids = ids[rows, : int(lengths.max())]
                steps, lengths, wanted = read_steps(part_ids, lengths, kernels.bos_eos_ids, has_bos_eos)
                outputs, final_state = kernels.run(steps, lengths, before)
                after.hidden[:, :, rows], after.cell[:, :, rows] = final_state
                for layer, output in zip(layers.flatten(1, 2), outputs, strict=True):
                    layer.index_copy_(0, positions, output[wanted])
            return layers, after

    def encode(self, ids: torch.Tensor, start: LstmState | None = None) -> torch.Tensor:
        if has_hooks(self):
            start = start or self.initial_state(1)
            return self(ids, LstmState(*(part.expand(-1, -1, len(ids), -1) for part in start)))[0]
        present = self._blueprint.token_encoder.checked_present(ids)
        with torch.inference_mode(False), torch.no_grad(), _without_autocast(ids.device.type):
            kernels, layers = self.prepare(), self._zero_layers(present)
            # The step over BOS is the same for all sentences, and the step over EOS is not needed.
            after_bos = kernels.state_after_bos(start or self.initial_state(1))
            for rows, lengths, positions in _parts(present):
                before = LstmState(*(part.expand(-1, -1, len(rows), -1) for part in after_bos))
                # `[]` would start PyTorch's threads, which then spin and keep the LSTM's threads from a core.
                words = ids.flatten(0, 1).index_select(0, positions)
                outputs, _ = kernels.run(words, lengths, before)
                for layer, output in zip(layers.flatten(1, 2), outputs, strict=True):
                    layer.index_copy_(0, positions, output)
            return layers

    def _zero_layers(self, present: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens)` to `(layers, batch, tokens, 2 projection_dim)`."""
        shape = self.num_layers, *present.shape, 2 * self.options.projection_dim
        return cast(torch.Tensor, self._reference).new_zeros(shape)

    def weights(self) -> dict[str, torch.Tensor]:
        """Returns the weights by their names in a `BiLm`, unpacked into new tensors where need be."""
        with CACHES_LOCK:
            # Packing empties `_weights`, so they are copied before the lock is released.
            weights = self._weights if self._kernels is None else self._kernels.weights()
            return {name: weights[name] for name in self._blueprint.state_dict() if name in weights}

    def prepare(self) -> "Kernels":
        """Packs the weights, which the first use would do; for errors see `check_precision`."""
        kernels = self._kernels
        if kernels is not None:
            return kernels
        with CACHES_LOCK:
            if self._kernels is None:
                # Tensors that are made in inference mode could not be used outside of it.
                with torch.inference_mode(False), torch.no_grad():
                    # The weights of a file are float32, whatever PyTorch's default type is.
                    for name, weight in self._weights.items():
                        self._weights[name] = self._converted(weight)
                    self._kernels = Kernels(self._blueprint, self._weights, self.precision)
            return self._kernels

    def requires_grad_(self, requires_grad: bool = True) -> "FrozenBiLm":
        if requires_grad:
            raise ElmoError(
                "requires_grad_(True): a frozen biLM has no parameters",
                remedy="call it on the Elmo, or set trainable: true",
            )
        return self

    # The module's hooks: its state dict has the names of a `BiLm`

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "FrozenBiLm":
        with CACHES_LOCK:
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
                    f"{prefix}{name} has the shape {tuple(weight.shape)} instead of {tuple(shaped.shape)}"
                )
            else:
                weight = weight.detach()
                converted = self._converted(weight)
                is_ours = converted is not weight or _private_state.get()
                weights[name] = converted if is_ours else converted.clone()
        surplus = (key for key in state_dict if key.startswith(prefix) and key[len(prefix) :] not in expected)
        unexpected_keys += surplus if strict else []
        with CACHES_LOCK:
            unchanged = self.weights() if len(weights) < len(expected) else {}
            self._weights, self._kernels, self._digest = unchanged | weights, None, None

    def _converted(self, weight: torch.Tensor) -> torch.Tensor:
        """Returns the weight on the biLM's device and of its type; the same tensor if it is so already."""
        reference = cast(torch.Tensor, self._reference)
        return weight.to(reference.device, reference.dtype if weight.is_floating_point() else weight.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """A copy packs its own weights, and the same weights have the same state."""
        # As bytes: PyTorch would send tensors to a new process as open files, which end with these tensors.
        weights = BytesIO()
        torch.save(self.weights(), weights)
        made_anew = {"_blueprint", "_kernels", "_digest"}
        state = {name: value for name, value in self.__dict__.items() if name not in made_anew}
        return {**state, "_weights": weights.getvalue()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._kernels = self._digest = None
        super().__setstate__({**state, "_weights": torch.load(BytesIO(state["_weights"]))})
        self._make_blueprint()


class Kernels:
    """
    The packed weights of a biLM on one device, and the computations with them.

    Threads share it, on a GPU the threads of one CUDA stream. It changes in its caches alone: of words, of
    the state after BOS, of the layers for lone sentences, and, on a GPU, of CUDA graphs, which one thread
    replays at a time.

    The `blueprint` is a `BiLm` without weights. `weights` are emptied layer by layer, so that one layer at a
    time is in memory twice. If the device has no products of the precision, they are unchanged, and that is
    an `ElmoError`.
    """

    def __init__(self, blueprint: BiLm, weights: dict[str, torch.Tensor], precision: str) -> None:
        options, encoder = blueprint.options, blueprint.token_encoder
        embedding = weights["token_encoder.embedding"]
        # Before a weight is taken out
        check_precision(precision, embedding.device)
        pack_weight = partial(pack, precision=precision)
        self.bos_eos_ids = encoder.bos_eos_ids.to(embedding.device)
        self.token_layer = FrozenTokens(encoder, _taken(weights, "token_encoder."), pack_weight)
        self._layers = {
            f"lstm.directions.{direction}.{layer}.": PackedLayer(
                _taken(weights, f"lstm.directions.{direction}.{layer}."),
                cell_clip=options.cell_clip,
                proj_clip=options.proj_clip,
                pack=pack_weight,
            )
            for direction in range(2)
            for layer in range(options.n_layers)
        }
        layers = list(self._layers.values())
        directions = layers[: options.n_layers], layers[options.n_layers :]
        dtype = torch.bfloat16 if precision == "bfloat16" else embedding.dtype
        self._lstm: FrozenLstm = (
            CudaLstm(directions, dtype, skip=options.use_skip_connections)
            if embedding.is_cuda
            else CpuLstm(directions, skip=options.use_skip_connections)
        )
        self._lock = RLock() if embedding.is_cuda else nullcontext()
        self._after_bos: tuple[LstmState, LstmState] | None = None

    def run(
        self, words: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        Runs the token layer and the LSTM layers over sequences laid end to end.

        *Shape:* `words` `(steps, *id)`, and the `lengths` of the sequences, `(batch,)`, none of them 0.
        Returns each layer, `(steps, 2 projection_dim)`, the token layer once for each direction; and the
        state after the last step of each sequence.
        """
        with self._lock:
            # (distinct words, projection_dim), (steps,)
            vectors, index = self.token_layer(words)
            outputs, after = self._lstm(vectors, index, lengths, state)
        vectors = vectors.index_select(0, index)
        return [torch.cat([vectors, vectors], dim=1), *outputs], after

    def state_after_bos(self, start: LstmState) -> LstmState:
        cached = self._after_bos
        if cached is None or not all(map(torch.equal, cached[0], start)):
            after = state_after_bos(self.run, self.bos_eos_ids, start)
            cached = LstmState(*(part.clone() for part in start)), after
            # One assignment, so that another thread sees both or neither
            self._after_bos = cached
        return cached[1]

    def weights(self) -> dict[str, torch.Tensor]:
        weights = {f"token_encoder.{name}": weight for name, weight in self.token_layer.weights().items()}
        for prefix, layer in self._layers.items():
            weights |= {f"{prefix}{name}": weight for name, weight in layer.weights().items()}
        return weights


def _taken(weights: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    names = [name for name in weights if name.startswith(prefix)]
    return {name.removeprefix(prefix): weights.pop(name) for name in names}


def _without_autocast(device: str) -> AbstractContextManager[object]:
    """Turns autocast off, if it is on: to enter it takes longer than to ask."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _parts(present: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """
    Splits a batch into parts of at most `TOKENS_PER_PART`, by length if need be, so that memory hardly grows
    with the batch.

    *Shape:* `(batch, tokens)` to the rows of each part, which have tokens, and their lengths, `(rows,)` each,
    and the positions of its tokens in the batch, `(tokens of the part,)`.
    """
    lengths = present.sum(dim=1)
    positions = torch.arange(present.numel(), device=present.device).view_as(present)
    rows = lengths.nonzero().squeeze(1)
    parts: Iterable[torch.Tensor] = [rows] if len(rows) else []
    if int(lengths.sum()) > TOKENS_PER_PART:
        rows = rows[lengths[rows].argsort(stable=True)]
        parts = rows.split(list(batch_sizes(lengths[rows].tolist(), TOKENS_PER_PART, padded=False)))
    for part in parts:
        yield part, lengths[part], positions[part][present[part]]
