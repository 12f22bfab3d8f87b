"""What a frozen biLM computes with on its device, made of its weights once."""

from contextlib import nullcontext
from functools import partial
from threading import RLock

import torch

from elmo_tasks.elmo.inference.character_cnn import FrozenCharacters, FrozenWords
from elmo_tasks.elmo.inference.cpu_lstm import CpuLstm, FrozenLstmLayer, Pack, state_after_bos
from elmo_tasks.elmo.inference.cuda_lstm import CudaLstm
from elmo_tasks.elmo.inference.packed_weights import check_precision, pack
from elmo_tasks.elmo.model.bilm import BiLm
from elmo_tasks.elmo.model.encoders import CharacterEncoder, WordEncoder
from elmo_tasks.elmo.model.lstm import LstmState


class Kernels:
    """
    All that computes, on one device. What changes in it are caches, which threads share: of words and of what
    is behind the mark, and on a GPU CUDA graphs, which one thread plays at a time.

    # Parameters

    blueprint : a `BiLm` without weights.
    weights : by their names; emptied, one layer after the other, so that each is in memory once.
    precision : of the products, one of `PRECISIONS`.

    # Raises
    `ElmoError`: the device has no products of this precision; then no weight is taken.
    """

    def __init__(self, blueprint: BiLm, weights: dict[str, torch.Tensor], precision: str) -> None:
        options = blueprint.options
        embedding = weights["token_encoder.embedding"]
        # This has to fail before a weight is taken out
        check_precision(precision, embedding.device)
        packed = partial(pack, precision=precision)
        self.present = blueprint.token_encoder.present
        encoder = blueprint.token_encoder
        self.bos_eos_ids = encoder.padded_ids([encoder.marks])[0].to(embedding.device)
        self.token_layer = _token_layer(encoder, _taken(weights, "token_encoder."), packed)
        self._layers = {
            f"lstm.directions.{direction}.{number}.": FrozenLstmLayer(
                _taken(weights, f"lstm.directions.{direction}.{number}."),
                cell_clip=options.cell_clip,
                proj_clip=options.proj_clip,
                pack=packed,
            )
            for direction in range(2)
            for number in range(options.n_layers)
        }
        layers = list(self._layers.values())
        directions = layers[: options.n_layers], layers[options.n_layers :]
        dtype = torch.bfloat16 if precision == "bfloat16" else embedding.dtype
        self._run = (
            CudaLstm(directions, dtype, skip=options.use_skip_connections)
            if embedding.is_cuda
            else CpuLstm(directions, packed, skip=options.use_skip_connections)
        )
        # CUDA graphs are played by one thread at a time.
        self._turn = RLock() if embedding.is_cuda else nullcontext()
        self._behind_mark: tuple[LstmState, LstmState] | None = None

    def run(
        self, words: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor], LstmState]:
        """
        *Shape:* `words` `(steps, *id)`, the sequences end to end, and their `lengths` `(batch,)`, none of
        them 0. Returns the vectors of the distinct words, `(distinct words, projection_dim)`; for each step
        the row of its word among them, `(steps,)`; the output of each layer, `(steps, 2 projection_dim)`; and
        the state behind the last step of each sequence.
        """
        with self._turn:
            vectors, index = self.token_layer(words)
            outputs, after = self._run(vectors, index, lengths, state)
        return vectors, index, outputs, after

    def state_after_bos(self, start: LstmState) -> LstmState:
        """See the function `state_after_bos`. The last start and its result are cached."""
        cached = self._behind_mark
        if cached is None or not all(map(torch.equal, cached[0], start)):
            behind = state_after_bos(self.run, self.bos_eos_ids, start)
            cached = LstmState(*(part.clone() for part in start)), behind
            # One assignment, so that another thread sees both or neither.
            self._behind_mark = cached
        return cached[1]

    def weights(self) -> dict[str, torch.Tensor]:
        """See `FrozenBiLm.weights`."""
        weights = {f"token_encoder.{name}": weight for name, weight in self.token_layer.weights().items()}
        for prefix, layer in self._layers.items():
            weights |= {f"{prefix}{name}": weight for name, weight in layer.weights().items()}
        return weights


def _token_layer(
    encoder: CharacterEncoder | WordEncoder, weights: dict[str, torch.Tensor], pack: Pack
) -> FrozenCharacters | FrozenWords:
    if isinstance(encoder, WordEncoder):
        return FrozenWords(encoder, weights)
    return FrozenCharacters(encoder, weights, pack)


def _taken(weights: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Takes the weights under a prefix out of all of them."""
    names = [name for name in weights if name.startswith(prefix)]
    return {name.removeprefix(prefix): weights.pop(name) for name in names}
