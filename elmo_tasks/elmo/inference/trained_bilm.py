"""
The biLM with weights that are trained: fast with gradients, and in evaluation as fast as one that is frozen.
"""

from functools import partial
from itertools import chain

import torch
from torch.nn import functional as F

from elmo_tasks.common.batches import unique_rows
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.inference.character_cnn import CharacterCnn, vectors_of_distinct
from elmo_tasks.elmo.inference.cpu_lstm import PackedSteps, read_steps, state_after_bos
from elmo_tasks.elmo.inference.frozen_bilm import FrozenBiLm
from elmo_tasks.elmo.inference.trained_characters import TrainedCharacterCnn
from elmo_tasks.elmo.inference.trained_lstm import Clips, trained_layer
from elmo_tasks.elmo.inference.training_products import Products
from elmo_tasks.elmo.inference.watched_weights import WatchedWeights
from elmo_tasks.elmo.model.bilm import BiLm, structure
from elmo_tasks.elmo.model.encoders import WordEncoder
from elmo_tasks.elmo.model.lstm import LstmState
from elmo_tasks.elmo.model.options import BiLmOptions

Pair = tuple[torch.Tensor, torch.Tensor]
"""A tensor of each direction, forward and backward."""


class TrainedBiLm(BiLm):
    """
    `BiLm`, with the same results.

    Without gradients, in evaluation or if no parameter wants one, a `FrozenBiLm` is made of the weights, and
    used until they change, in whatever way (`WatchedWeights`). With modules of others or hooks inside, the
    plain `BiLm` runs.

    # Parameters

    options : its sizes.
    precision : of the products of training, `float32` or `bfloat16`; sums and weights are float32 in both,
        and so is evaluation.
    """

    def __init__(self, *, options: BiLmOptions, precision: str = "float32") -> None:
        super().__init__(options=options)
        self.products, self._exact_products = Products(precision), Products()
        self._watched = WatchedWeights()
        self._structure = structure(self)

    def weights_changed(self) -> None:
        """Forgets what was made of the weights."""
        self._watched.forget()

    def forward(
        self, ids: torch.Tensor, state: LstmState | None = None, marked: bool = False
    ) -> tuple[torch.Tensor, LstmState]:
        """See `FrozenBiLm.forward`."""
        if structure(self) != self._structure:
            return super().forward(ids, state)
        if (frozen := self._without_gradients()) is not None:
            return frozen(ids, state, marked)
        self.token_encoder.check(ids)
        state = state or self.initial_state(len(ids))
        present = self.token_encoder.present(ids)
        rows, lengths = _rows_with_tokens(present)
        steps, lengths, wanted = read_steps(ids[rows], lengths, self.token_encoder.bos_eos_ids, marked)
        before = LstmState(state.hidden[:, :, rows], state.cell[:, :, rows])
        outputs, after = self._run(steps, lengths, before)
        layers = _scattered([output[wanted] for output in outputs], present, self._no_layers(ids))
        return layers, LstmState(
            *(part.index_copy(2, rows, new) for part, new in zip(state, after, strict=True))
        )

    def encode(self, ids: torch.Tensor, start: LstmState | None = None) -> torch.Tensor:
        """See `BiLm.encode`."""
        if structure(self) != self._structure:
            return super().encode(ids, start)
        if (frozen := self._without_gradients()) is not None:
            return frozen.encode(ids, start)
        self.token_encoder.check(ids)
        present = self.token_encoder.present(ids)
        rows, lengths = _rows_with_tokens(present)
        bos_eos_ids = self.token_encoder.bos_eos_ids
        behind_mark = state_after_bos(self._run, bos_eos_ids, start or self.initial_state(1))
        before = LstmState(*(part.expand(-1, -1, len(rows), -1) for part in behind_mark))
        outputs, _ = self._run(ids[present], lengths, before)
        return _scattered(outputs, present, self._no_layers(ids))

    def token_vectors(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(words, *id)` to the vectors of the distinct words, `(distinct words, projection_dim)`, and
        for each word its row among them, `(words,)`.
        """
        self.check_structure()
        encoder = self.token_encoder
        if isinstance(encoder, WordEncoder):
            return vectors_of_distinct(words, encoder)
        distinct, index = unique_rows(words)
        if words.is_cuda:
            # There is nothing to gain from small products.
            cnn = CharacterCnn(encoder, lambda weight, bias: partial(F.linear, weight=weight, bias=bias))
            return cnn(distinct), index
        return TrainedCharacterCnn(encoder, self._products())(distinct), index

    def run_layers(
        self, inputs: Pair, steps: PackedSteps, state: LstmState, dropout: float = 0.0
    ) -> tuple[list[Pair], LstmState]:
        """
        All LSTM layers; `dropout` is the probability with which an input of a layer is left out.

        *Shape:* of each direction `inputs` `(steps, projection_dim)`, packed in the order in which it reads,
        to the outputs of each layer in each direction, the same, and the state after the last steps.
        """
        # In full precision also where the rest is in mixed: a sum over many steps is what a state is.
        with torch.autocast(inputs[0].device.type, enabled=False):
            dtype = state.cell.dtype
            inputs = inputs[0].to(dtype), inputs[1].to(dtype)
            order, in_order = steps.order, steps.order.argsort()
            layers, ended = [], []
            for number, pair in enumerate(zip(*map(self.lstm.layers, range(2)), strict=True)):
                inputs = F.dropout(inputs[0], dropout), F.dropout(inputs[1], dropout)
                tensors = [
                    tensor
                    for direction, lstm in enumerate(pair)
                    for tensor in (
                        inputs[direction],
                        state.hidden[number, direction, order],
                        state.cell[number, direction, order],
                        lstm.weight,
                        lstm.bias,
                        lstm.projection,
                    )
                ]
                clips = Clips(pair[0].cell_clip, pair[0].proj_clip)
                results = trained_layer(steps.batch_sizes, clips, self._products(), *tensors)
                (forward, *forward_state), (backward, *backward_state) = results[:3], results[3:]
                if number and self.lstm.use_skip_connections:
                    forward, backward = forward + inputs[0], backward + inputs[1]
                inputs = forward, backward
                layers.append(inputs)
                ended.append([torch.stack(pair) for pair in zip(forward_state, backward_state, strict=True)])
            hidden, cell = (torch.stack(parts)[:, :, in_order] for parts in zip(*ended, strict=True))
            return layers, LstmState(hidden, cell)

    def check_structure(self) -> None:
        """
        Checks that nothing is placed inside, since `token_vectors` and `run_layers` would pass it by.

        # Raises
        `ElmoError`: a module of another class, with other weights, or with hooks.
        """
        found = structure(self)
        for name, expected in self._structure.items() if found != self._structure else ():
            if found.get(name) != expected:
                raise ElmoError(
                    f"bilm.{name}: found another module, other weights or hooks, expected the biLM as it "
                    "was made: its training would pass them by"
                )

    def _without_gradients(self) -> FrozenBiLm | None:
        """The frozen biLM, where no graph is wanted; otherwise `None`."""
        trained = any(weight.requires_grad for weight in self.parameters())
        if trained and torch.is_grad_enabled():
            self.weights_changed()
        if trained and (self.training or torch.is_grad_enabled()):
            return None
        return self._watched.frozen(chain(self.parameters(), self.buffers()), self._made_frozen)

    def _made_frozen(self) -> FrozenBiLm:
        weights = {name: weight.detach() for name, weight in self.state_dict().items()}
        return FrozenBiLm(options=self.options, weights=weights).to(self.token_encoder.embedding)

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
        inputs = F.embedding(index[steps.rows[0]], vectors), F.embedding(index[steps.rows[1]], vectors)
        layers, after = self.run_layers(inputs, steps, state)
        return [vectors[index].repeat(1, 2), *map(steps.unpacked, layers)], after

    def _no_layers(self, ids: torch.Tensor) -> torch.Tensor:
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
