"""AllenNLP's `Elmo`, computed by our engine."""

from typing import Any, List, Optional  # noqa: UP035  AllenNLP's from_params reads List

import torch
from allennlp.common import FromParams
from allennlp.common.checks import ConfigurationError
from allennlp.modules.scalar_mix import ScalarMix
from torch import nn

from elmo_tasks.drop_in.names import from_allennlp, to_allennlp
from elmo_tasks.elmo.embedder import CarriedState
from elmo_tasks.elmo.files import read_bilm, read_options
from elmo_tasks.elmo.model import CharacterOptions


class Elmo(nn.Module, FromParams):
    """
    `allennlp.modules.elmo.Elmo` with the same parameters, results and state dict, faster.

    As there, row i of a batch goes on where row i of the batch before ended, unless `stateful` is switched
    off; but a row without tokens keeps its state.

    # Parameters

    options_file, weight_file : path or URL of the official `options.json` and HDF5 weights, of a biLM that
        reads characters.
    num_output_representations : number of mixes of the layers.
    requires_grad : fine-tune the biLM.
    dropout : probability, on each representation.
    scalar_mix_parameters : of each layer, before the softmax; they are not trained.
    do_layer_norm, keep_sentence_boundaries, vocab_to_cache, module : only as they are by default.

    # Raises
    `ConfigurationError`: a parameter that is not supported, and whatever reading the files raises.
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
        self._mixes = []
        for number in range(num_output_representations):
            mix = ScalarMix(
                options.n_layers + 1,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{number}", mix)
            self._mixes.append(f"scalar_mix_{number}")
        self.register_state_dict_post_hook(_to_allennlp)
        self.register_load_state_dict_pre_hook(_from_allennlp)

    def get_output_dim(self) -> int:
        """The size of each representation."""
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
    """
    # Raises
    `ConfigurationError`: one of them has a value, which AllenNLP's own `Elmo` alone can do.
    """
    for name, value in parameters.items():
        if value is not None and value is not False:
            raise ConfigurationError(
                f"elmo_tasks.drop_in: found {name}, which it does not support; expected an ELMo without it, "
                "or AllenNLP's own, without elmo_tasks.drop_in"
            )


def _to_allennlp(elmo: Elmo, state: dict[str, Any], prefix: str, *_: Any) -> None:
    to_allennlp(state, f"{prefix}_elmo_lstm.", elmo._elmo_lstm.options)


def _from_allennlp(elmo: Elmo, state: dict[str, Any], prefix: str, *_: Any) -> None:
    from_allennlp(state, f"{prefix}_elmo_lstm.", elmo._elmo_lstm.options)
