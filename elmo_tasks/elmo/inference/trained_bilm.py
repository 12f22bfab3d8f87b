"""
The biLM with weights that are trained: fast with gradients, and in evaluation as fast as one that is frozen.

In the character CNN, each filter yields the maximum over a word's windows. Autograd would keep the values
of all filters at all windows, and go over them several times. Here some windows at a time are computed while
they are in the processor's cache, and only the positions of the maxima are kept.

In evaluation, a frozen biLM of the current weights runs. PyTorch counts what is written into a
parameter, but not what is written through `parameter.data`, by NumPy, or by another process into the same
memory. So the weights themselves are compared, by checksums.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from elmo_tasks.common.batches import unique_rows
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import CACHES_LOCK, limit_forks_to_one_thread
from elmo_tasks.elmo.inference.character_cnn import (
    WINDOWS_AT_ONCE,
    JoinedCharacterCnn,
    LinearMap,
    blocks_by_length,
    joined_filters,
    vectors_of_distinct,
)
from elmo_tasks.elmo.inference.frozen_bilm import FrozenBiLm
from elmo_tasks.elmo.inference.layout import PackedSteps, read_steps, state_after_bos
from elmo_tasks.elmo.inference.trained_lstm import Clips, RecordedLayer, trained_layer
from elmo_tasks.elmo.inference.training_products import Product, Products, Workspace, product, weight_gradient
from elmo_tasks.elmo.model.bilm import BiLm, structure
from elmo_tasks.elmo.model.characters import shortened
from elmo_tasks.elmo.model.encoders import CharacterEncoder, WordEncoder, is_traced
from elmo_tasks.elmo.model.lstm import LstmState
from elmo_tasks.elmo.model.options import BiLmOptions


class WordBlock(NamedTuple):
    """Some words of about the same length."""

    ids: torch.Tensor
    """`(words, windows + widest - 1)`: of the characters; `words * windows` is at most `WINDOWS_AT_ONCE`."""
    missing: torch.Tensor | None
    """`(windows, filters)`: where a filter has no window; `None` where each has all."""


class TrainedFilters(Function):
    """
    `apply(products, parts, embedding, weight, bias)`: the `WordBlock` of each part, the vectors of the
    characters `(characters, dim)`, and the filters, all as wide as the widest, `(filters, widest * dim)`
    and `(filters,)`; to the maxima, `(words, filters)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        products: Products,
        parts: list[WordBlock],
        embedding: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
    ) -> torch.Tensor:
        dtype, workspace = products.dtype(embedding), Workspace(products.buffers)
        rows = len(parts) * WINDOWS_AT_ONCE
        rounded_embedding, rounded_weight, rounded_bias = (x.to(dtype) for x in (embedding, weight, bias))
        # The inputs of the filters, and whether each has its maximum there: (parts * windows, ...)
        filter_inputs = workspace.empty(embedding, rows, weight.size(1), dtype=dtype)
        is_maximum = workspace.empty(embedding, rows, len(weight), dtype=dtype)
        widest, maxima, counts = weight.size(1) // embedding.size(1), [], []
        for (ids, missing), part_inputs, part_is_maximum in zip(
            parts, filter_inputs.split(WINDOWS_AT_ONCE), is_maximum.split(WINDOWS_AT_ONCE), strict=True
        ):
            words, windows = len(ids), ids.size(1) - widest + 1
            real = words * windows
            # (words, windows, widest, dim)
            by_window = F.embedding(ids, rounded_embedding).unfold(1, widest, 1).transpose(2, 3)
            part_inputs[:real].view(by_window.shape).copy_(by_window)
            part_inputs[real:] = 0
            # (words, windows, filters)
            filtered = product(part_inputs, rounded_weight, rounded_bias)[:real].view(words, windows, -1)
            if missing is not None:
                filtered.masked_fill_(missing, -torch.inf)
            # (words, filters)
            maximum = filtered.amax(dim=1)
            equal = torch.eq(filtered, maximum.unsqueeze(1), out=part_is_maximum[:real].view(filtered.shape))
            part_is_maximum[real:] = 0
            maxima.append(maximum)
            counts.append(equal.sum(dim=1))
        ctx.workspace, ctx.parts = workspace, parts
        ctx.filter_inputs, ctx.is_maximum = filter_inputs, is_maximum
        ctx.save_for_backward(embedding, rounded_weight, torch.cat(counts))
        return torch.cat(maxima).to(embedding.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_maxima: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        embedding, weight, counts = ctx.saved_tensors
        dim = embedding.size(1)
        widest = weight.size(1) // dim
        # Windows with the same maximum share the gradient.
        shares = (grad_maxima / counts).to(weight.dtype).split([len(part.ids) for part in ctx.parts])
        grad_embedding, grad_weight = torch.zeros_like(embedding), embedding.new_zeros(weight.shape)
        grad_filtered = ctx.is_maximum.new_zeros(WINDOWS_AT_ONCE, len(weight))
        for (ids, _), share, filter_inputs, is_maximum in zip(
            ctx.parts,
            shares,
            ctx.filter_inputs.split(WINDOWS_AT_ONCE),
            ctx.is_maximum.split(WINDOWS_AT_ONCE),
            strict=True,
        ):
            words, windows = len(ids), ids.size(1) - widest + 1
            real = words * windows
            shape = words, windows, -1
            torch.mul(is_maximum[:real].view(shape), share.unsqueeze(1), out=grad_filtered[:real].view(shape))
            grad_filtered[real:] = 0
            grad_weight += weight_gradient(grad_filtered, filter_inputs)
            # (words, windows, widest, dim)
            grad_inputs = product(grad_filtered, weight.t())[:real].view(words, windows, widest, dim)
            grad_characters = embedding.new_zeros(*ids.shape, dim)
            for offset in range(widest):
                grad_characters[:, offset : offset + windows] += grad_inputs[:, :, offset]
            grad_embedding.index_add_(0, ids.flatten(), grad_characters.flatten(0, 1))
        return None, None, grad_embedding, grad_weight, grad_maxima.sum(dim=0)


WORD_MULTIPLE = 64
"""Words of a product are a multiple of it: oneDNN compiles a kernel for each size."""


class TrainedCharacterCnn(JoinedCharacterCnn):
    """`JoinedCharacterCnn` with gradients for the encoder's weights."""

    def __init__(self, encoder: CharacterEncoder, products: Products) -> None:
        def product(weight: torch.Tensor, bias: torch.Tensor) -> LinearMap:
            return lambda rows: Product.apply(products, rows, weight, bias)

        super().__init__(encoder, product)
        self._products = products
        self._weight, self._bias = joined_filters(encoder)

    def __call__(self, words: torch.Tensor) -> torch.Tensor:
        words = shortened(words, self.length)
        blocks, order = blocks_by_length(words)
        parts = [
            WordBlock(self.characters_in(block, windows), self.outside(windows)) for block, windows in blocks
        ]
        features = TrainedFilters.apply(self._products, parts, self.embedding, self._weight, self._bias)
        padding = 0, 0, 0, -len(words) % WORD_MULTIPLE
        features = F.pad(self.activation(features), padding)
        return self.projected(features, F.pad(words[order], padding))[: len(words)][order.argsort()]


class TrainedBiLm(BiLm):
    """
    `BiLm`, with the same results.

    Without gradients, in evaluation or if no parameter wants one, a `FrozenBiLm` is made of the weights, and
    used until they change, in whatever way (`FrozenCopy`). With foreign modules or hooks inside, the
    plain `BiLm` runs.

    # Parameters

    precision : of the products of training, `float32` or `bfloat16`; sums and weights are float32 in both,
        and so is evaluation.
    """

    def __init__(self, *, options: BiLmOptions, precision: str = "float32") -> None:
        super().__init__(options=options)
        limit_forks_to_one_thread()
        self.products, self._exact_products = Products(precision), Products()
        self._recordings: dict[tuple[Clips, Products], RecordedLayer] = {}
        self._frozen_copy = FrozenCopy()
        self._structure = structure(self)

    def weights_changed(self) -> None:
        """Forgets what was made of the weights."""
        self._frozen_copy.forget()

    def forward(
        self, ids: torch.Tensor, state: LstmState | None = None, has_bos_eos: bool = False
    ) -> tuple[torch.Tensor, LstmState]:
        """See `FrozenBiLm.forward`. With foreign modules or hooks inside, `has_bos_eos` is an `ElmoError`."""
        if is_traced() or structure(self) != self._structure:
            if has_bos_eos:
                self.check_structure()
            return super().forward(ids, state)
        if (frozen := self._without_gradients()) is not None:
            return frozen(ids, state, has_bos_eos)
        present = self.token_encoder.checked_present(ids)
        state = state or self.initial_state(len(ids))
        rows, lengths = _rows_with_tokens(present)
        steps, lengths, wanted = read_steps(ids[rows], lengths, self.token_encoder.bos_eos_ids, has_bos_eos)
        before = LstmState(state.hidden[:, :, rows], state.cell[:, :, rows])
        outputs, after = self._run(steps, lengths, before)
        layers = _scattered([output[wanted] for output in outputs], present, self._zero_layers(ids))
        return layers, LstmState(
            *(part.index_copy(2, rows, new) for part, new in zip(state, after, strict=True))
        )

    def encode(self, ids: torch.Tensor, start: LstmState | None = None) -> torch.Tensor:
        if is_traced() or structure(self) != self._structure:
            return super().encode(ids, start)
        if (frozen := self._without_gradients()) is not None:
            return frozen.encode(ids, start)
        present = self.token_encoder.checked_present(ids)
        rows, lengths = _rows_with_tokens(present)
        bos_eos_ids = self.token_encoder.bos_eos_ids
        after_bos = state_after_bos(self._run, bos_eos_ids, start or self.initial_state(1))
        before = LstmState(*(part.expand(-1, -1, len(rows), -1) for part in after_bos))
        outputs, _ = self._run(ids[present], lengths, before)
        return _scattered(outputs, present, self._zero_layers(ids))

    def token_vectors(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Returns the vectors of the distinct words, and each word's row among them; see `check_structure`.

        *Shape:* `(words, *id)` to `(distinct words, projection_dim)` and `(words,)`.
        """
        self.check_structure()
        encoder = self.token_encoder
        if isinstance(encoder, WordEncoder):
            return vectors_of_distinct(words, encoder)
        distinct, index = unique_rows(words)
        if words.is_cuda:
            # There is nothing to gain from small products.
            cnn = JoinedCharacterCnn(
                encoder, lambda weight, bias: partial(F.linear, weight=weight, bias=bias)
            )
            return cnn(distinct), index
        return TrainedCharacterCnn(encoder, self._products())(distinct), index

    def run_layers(
        self,
        inputs: tuple[torch.Tensor, torch.Tensor],
        steps: PackedSteps,
        state: LstmState,
        dropout: float = 0.0,
        fixed_shape: bool = False,
    ) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], LstmState]:
        """
        Runs all LSTM layers. `dropout` is the probability with which an input of a layer is left out.
        `fixed_shape` says that all sequences have one length, and all batches this shape: then a GPU records
        the passes.

        *Shape:* of each direction `inputs` `(steps, projection_dim)`, packed in the order in which it reads,
        to the outputs of each layer in each direction, the same, and the state after the last steps.
        """
        # Full precision, even where the rest runs in mixed precision: a state is a sum over many steps.
        with torch.autocast(inputs[0].device.type, enabled=False):
            dtype = state.cell.dtype
            inputs = inputs[0].to(dtype), inputs[1].to(dtype)
            order, in_order = steps.order, steps.order.argsort()
            layers, ended = [], []
            for layer_index, pair in enumerate(zip(*map(self.lstm.layers, range(2)), strict=True)):
                inputs = F.dropout(inputs[0], dropout), F.dropout(inputs[1], dropout)
                tensors = [
                    tensor
                    for direction, lstm in enumerate(pair)
                    for tensor in (
                        inputs[direction],
                        state.hidden[layer_index, direction, order],
                        state.cell[layer_index, direction, order],
                        lstm.weight,
                        lstm.bias,
                        lstm.projection,
                    )
                ]
                clips = Clips(pair[0].cell_clip, pair[0].proj_clip)
                recorded = self._recorded(clips) if fixed_shape else None
                results = trained_layer(
                    steps.batch_sizes, clips, self._products(), *tensors, recorded=recorded
                )
                (forward, *forward_state), (backward, *backward_state) = results[:3], results[3:]
                if layer_index and self.lstm.use_skip_connections:
                    forward, backward = forward + inputs[0], backward + inputs[1]
                inputs = forward, backward
                layers.append(inputs)
                ended.append([torch.stack(pair) for pair in zip(forward_state, backward_state, strict=True)])
            hidden, cell = (torch.stack(parts)[:, :, in_order] for parts in zip(*ended, strict=True))
            return layers, LstmState(hidden, cell)

    def check_structure(self) -> None:
        """Raises `ElmoError` if a foreign module or hook is inside, which other methods would bypass."""
        current = structure(self)
        names = sorted(current.keys() | self._structure)
        if changed := [name for name in names if current.get(name) != self._structure.get(name)]:
            raise ElmoError(
                "this biLM runs without foreign modules, other weights and hooks",
                key=f"bilm.{changed[0]}".rstrip("."),
            )

    def _without_gradients(self) -> FrozenBiLm | None:
        trained = any(weight.requires_grad for weight in self.parameters())
        if trained and torch.is_grad_enabled():
            self.weights_changed()
        if trained and (self.training or torch.is_grad_enabled()):
            return None
        return self._frozen_copy.frozen(chain(self.parameters(), self.buffers()), self._made_frozen)

    def _made_frozen(self) -> FrozenBiLm:
        weights = {name: weight.detach() for name, weight in self.state_dict().items()}
        return FrozenBiLm(options=self.options, weights=weights).to(self.token_encoder.embedding)

    def _recorded(self, clips: Clips) -> RecordedLayer:
        if (key := (clips, self._products())) not in self._recordings:
            self._recordings[key] = RecordedLayer(*key)
        return self._recordings[key]

    def _products(self) -> Products:
        return self.products if self.training else self._exact_products

    def _run(
        self, words: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        *Shape:* `words` `(steps, *id)`, the sequences end to end, and their `lengths` `(batch,)`. Returns all
        layers, `(steps, 2 projection_dim)`, and the state after the last step of each sequence.
        """
        if not len(lengths):
            nothing = self.token_encoder.embedding.new_zeros(0, self.options.output_dim)
            return [nothing] * self.num_layers, state
        vectors, index = self.token_vectors(words)
        steps = PackedSteps.of(lengths)
        forward, backward = (F.embedding(index[positions], vectors) for positions in steps.positions)
        layers, after = self.run_layers((forward, backward), steps, state)
        return [vectors[index].repeat(1, 2), *map(steps.unpacked, layers)], after

    def _zero_layers(self, ids: torch.Tensor) -> torch.Tensor:
        shape = self.num_layers, *ids.shape[:2], self.options.output_dim
        return self.token_encoder.embedding.new_zeros(shape)


def _rows_with_tokens(present: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """*Shape:* `(batch, tokens)` to the rows with tokens and their lengths, `(rows,)` each."""
    lengths = present.sum(dim=1)
    rows = lengths.nonzero().squeeze(1)
    return rows, lengths[rows]


def _scattered(outputs: list[torch.Tensor], present: torch.Tensor, layers: torch.Tensor) -> torch.Tensor:
    """*Shape:* of each layer `(tokens, dim)`, the sentences end to end, to where they are in `layers`."""
    return layers.masked_scatter(present.unsqueeze(2), torch.stack(outputs))


WIDTH = 64
"""Words of 64 bits in a checksum, which PyTorch sums up at the speed of the memory."""


class FrozenCopy:
    """A frozen biLM of some weights, which is made again when these change. Threads may share it."""

    def __init__(self) -> None:
        self._cached: tuple[FrozenBiLm, list[Any], torch.Tensor] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """A copy makes a frozen biLM of its own weights."""
        return FrozenCopy, ()

    def forget(self) -> None:
        self._cached = None

    def frozen(self, weights: Iterable[torch.Tensor], make: Callable[[], FrozenBiLm]) -> FrozenBiLm:
        """Returns the frozen biLM, made again if a value has changed; this reads the `weights` once."""
        tensors = [weight.detach() for weight in weights]
        kinds = [(tensor.device, tensor.dtype, tensor.shape) for tensor in tensors]
        sums = torch.cat([part for tensor in tensors for part in checksums(tensor)])
        with CACHES_LOCK:
            # Once, since another thread may empty it
            cached = self._cached
            if cached is None or cached[1] != kinds or not torch.equal(cached[2], sums):
                frozen = make()
                frozen.prepare()
                self._cached = cached = frozen, kinds, sums
            return cached[0]


def checksums(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """
    Yields sums of the bits of a tensor, on its device, that change with each of its values and with the order
    of its rows. Two values of one sum that are swapped are not noticed.

    *Shape:* any, to `(sums,)`, int64.
    """
    values = tensor.contiguous().view(-1)
    if values.data_ptr() % 8:
        values = values.clone()
    octets = values.view(torch.uint8)
    whole = len(octets) // 8 * 8
    words = octets[:whole].view(torch.int64)
    # Two rows of one sum could be swapped. So a tensor of shorter rows, which is small, is
    # compared whole.
    has_long_rows = tensor.dim() > 1 and 8 * WIDTH * len(tensor) <= len(octets)
    summed = len(words) // WIDTH * WIDTH if has_long_rows else 0
    yield words[:summed].view(-1, WIDTH).sum(dim=1)
    yield words[summed:]
    yield octets[whole:].long()
