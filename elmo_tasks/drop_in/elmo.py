"""AllenNLP's `Elmo`, whose biLM is run by our engine."""

from typing import Any, List, Optional  # noqa: UP035  AllenNLP's from_params reads List

import torch
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from torch import nn

from elmo_tasks.drop_in.bilm import ElmoBiLm


class Elmo(AllenNlpElmo):
    """
    `allennlp.modules.elmo.Elmo` with the same parameters, names and results, faster.

    As there, row i of a batch continues where row i of the batch before ended, unless `stateful` is switched
    off, here or of `_elmo_lstm._elmo_lstm`.

    # Parameters

    options_file, weight_file : path or URL of the official `options.json` and HDF5 weights, of a biLM that
        reads characters.
    num_output_representations : number of mixes of the layers.
    module : run in the place of a biLM from files, by its own code.
    The others : see AllenNLP's class.

    # Raises
    `ConfigurationError`, `ElmoError`: see `ElmoBiLm`.
    """

    stateful = True
    """The default of all instances; `elmo_tasks.drop_in.install` sets it."""

    def __init__(
        self,
        options_file: Optional[str],
        weight_file: Optional[str],
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Optional[List[str]] = None,  # noqa: UP006
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Optional[List[float]] = None,  # noqa: UP006
        module: Optional[nn.Module] = None,
    ) -> None:
        files = {"options_file": options_file, "weight_file": weight_file}
        if module is None and options_file is not None and weight_file is not None:
            module = ElmoBiLm(options_file, weight_file, requires_grad, vocab_to_cache)
            files = dict.fromkeys(files)
        super().__init__(
            **files,
            num_output_representations=num_output_representations,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            vocab_to_cache=vocab_to_cache,
            keep_sentence_boundaries=keep_sentence_boundaries,
            scalar_mix_parameters=scalar_mix_parameters,
            module=module,
        )

    def forward(self, inputs: torch.Tensor, word_inputs: Optional[torch.Tensor] = None) -> dict[str, Any]:
        """See AllenNLP's class."""
        if not self.stateful and isinstance(self._elmo_lstm, ElmoBiLm):
            self._elmo_lstm._elmo_lstm.stateful = False
        return super().forward(inputs, word_inputs)
