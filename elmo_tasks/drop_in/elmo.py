"""AllenNLP's `Elmo`, computed by our engine; its state dict has AllenNLP's names."""

from collections.abc import Iterator, MutableMapping
from typing import Any, List, Optional  # noqa: UP035  AllenNLP's from_params reads List

import torch
from allennlp.common import FromParams
from allennlp.common.checks import ConfigurationError
from allennlp.modules.scalar_mix import ScalarMix
from torch import nn

from elmo_tasks.elmo.embedder import CarriedState
from elmo_tasks.elmo.files import read_bilm, read_options
from elmo_tasks.elmo.model import BiLmOptions, CharacterOptions

State = MutableMapping[str, torch.Tensor]
"""A state dict, or a part of one."""


class Elmo(nn.Module, FromParams):
    """
    `allennlp.modules.elmo.Elmo` with the same parameters, results and state dict, faster.

    As there, row i of a batch continues where row i of the batch before ended, unless `stateful` is switched
    off; but a row without tokens keeps its state.

    # Parameters

    options_file, weight_file : path or URL of the official `options.json` and HDF5 weights, of a biLM that
        reads characters.
    num_output_representations : number of mixes of the layers.
    requires_grad : fine-tune the biLM.
    dropout : probability, on each representation.
    scalar_mix_parameters : the weight of each layer, before the softmax; the weights are not trained.
    do_layer_norm, keep_sentence_boundaries, vocab_to_cache, module : only their defaults are supported.

    # Raises
    `ConfigurationError`: a parameter that is not supported. `ElmoError`: see `read_options` and `read_bilm`.
    """

    stateful = True
    """The default of all instances; `elmo_tasks.drop_in.install` sets it."""

    def __init__(
        self,
        options_file: str,
        weight_file: str,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Optional[List[str]] = None,  # noqa: UP006
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Optional[List[float]] = None,  # noqa: UP006
        module: Optional[nn.Module] = None,
    ) -> None:
        super().__init__()
        _refuse(
            do_layer_norm=do_layer_norm,
            vocab_to_cache=vocab_to_cache,
            keep_sentence_boundaries=keep_sentence_boundaries,
            module=module,
        )
        options = read_options(options_file)
        tokens, size = options.tokens, options.projection_dim
        if not isinstance(tokens, CharacterOptions):
            raise ConfigurationError(f"{options_file}: found a biLM that reads words, expected characters")
        if size in (options.dim, tokens.num_filters):
            raise ConfigurationError(
                f"{options_file}: found the projection_dim {size}, with LSTMs of {options.dim} and "
                f"{tokens.num_filters} filters; expected another size, as AllenNLP's names of weights need it"
            )
        self._elmo_lstm = read_bilm(options, weight_file, trainable=requires_grad)
        self._carried = CarriedState()
        self._dropout = nn.Dropout(dropout)
        self._mixes = [f"scalar_mix_{number}" for number in range(num_output_representations)]
        for name in self._mixes:
            mix = ScalarMix(
                options.n_layers + 1,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(name, mix)
        self.register_state_dict_post_hook(_to_allennlp)
        self.register_load_state_dict_pre_hook(_from_allennlp)

    def get_output_dim(self) -> int:
        """Returns the size of each representation."""
        return self._elmo_lstm.options.output_dim

    def forward(
        self, inputs: torch.Tensor, word_inputs: Optional[torch.Tensor] = None
    ) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        """
        *Shape:* `inputs` `(batch, ..., tokens, 50)`, of AllenNLP's indexer `elmo_characters`. Returns the
        `elmo_representations`, a list of `(batch, ..., tokens, dim)`, and `mask`, `(batch, ..., tokens)`.
        """
        _refuse(word_inputs=word_inputs)
        mask = (inputs > 0).any(dim=-1)
        ids = inputs.flatten(0, -3)
        if self.stateful:
            start = self._elmo_lstm.initial_state(1)
            layers = self._carried.encode(self._elmo_lstm, ids, start)
        else:
            layers = self._elmo_lstm.encode(ids)
        representations = [
            self._dropout(self.get_submodule(mix)(list(layers))).view(*mask.shape, self.get_output_dim())
            for mix in self._mixes
        ]
        return {"elmo_representations": representations, "mask": mask}


def _refuse(**parameters: Any) -> None:
    for name, value in parameters.items():
        if value is not None and value is not False:
            raise ConfigurationError(
                f"elmo_tasks.drop_in: found {name}, which it does not support; expected an ELMo without it, "
                "or AllenNLP's own, without elmo_tasks.drop_in"
            )


def _from_allennlp(elmo: Elmo, state: State, prefix: str, *_: Any) -> None:
    """
    Turns the weights of AllenNLP's `_ElmoBiLm` in a state dict into the weights of a `BiLm`. A weight for
    which the state dict lacks a part is left for the module that loads it to report.
    """
    prefix += "_elmo_lstm."
    for name, parts in _layout(elmo._elmo_lstm.options):
        if not all(prefix + part in state for part in parts):
            continue
        weights = [state.pop(prefix + part) for part in parts]
        if name.endswith(".highway"):
            transform, carry = weights[0].chunk(2)
            transform_name, carry_name = _gates(prefix + name)
            # AllenNLP's gate is the share that is carried over; ours is the share that is transformed.
            state[transform_name], state[carry_name] = transform, -carry
        else:
            state[prefix + name] = torch.cat(weights, dim=1) if len(weights) > 1 else weights[0]


def _to_allennlp(elmo: Elmo, state: State, prefix: str, *_: Any) -> None:
    """The inverse of `_from_allennlp`."""
    prefix += "_elmo_lstm."
    for name, parts in _layout(elmo._elmo_lstm.options):
        if name.endswith(".highway"):
            transform, carry = (state.pop(gate) for gate in _gates(prefix + name))
            state[prefix + parts[0]] = torch.cat([transform, -carry])
        else:
            for part, weight in zip(parts, state.pop(prefix + name).chunk(len(parts), dim=-1), strict=True):
                state[prefix + part] = weight


def _gates(name: str) -> tuple[str, str]:
    """Returns the names of the two weights, or biases, of a highway layer."""
    layer, kind, _ = name.rsplit(".", 2)
    return f"{layer}.transform.{kind}", f"{layer}.carry.{kind}"


def _layout(options: BiLmOptions) -> Iterator[tuple[str, list[str]]]:
    """
    Yields each parameter of a `BiLm`, and the parameters of `_ElmoBiLm` that it consists of, side by side.
    The two gates of a highway layer, one parameter there, are `<layer>.<weight or bias>.highway`.
    """
    assert isinstance(options.tokens, CharacterOptions)
    encoder, token_embedder = "token_encoder", "_token_embedder"
    yield f"{encoder}.embedding", [f"{token_embedder}._char_embedding_weights"]
    for kind in ("weight", "bias"):
        for i in range(len(options.tokens.filters)):
            yield f"{encoder}.convolutions.{i}.{kind}", [f"{token_embedder}.char_conv_{i}.{kind}"]
        for i in range(options.tokens.n_highway):
            yield f"{encoder}.highways.{i}.{kind}.highway", [f"{token_embedder}._highways._layers.{i}.{kind}"]
        yield f"{encoder}.projection.{kind}", [f"{token_embedder}._projection.{kind}"]
    for direction, stack in enumerate(("forward", "backward")):
        for layer in range(options.n_layers):
            cell = f"_elmo_lstm.{stack}_layer_{layer}"
            name = f"lstm.directions.{direction}.{layer}"
            yield f"{name}.weight", [f"{cell}.input_linearity.weight", f"{cell}.state_linearity.weight"]
            yield f"{name}.bias", [f"{cell}.state_linearity.bias"]
            yield f"{name}.projection", [f"{cell}.state_projection.weight"]
