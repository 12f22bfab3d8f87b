"""What the task models share: words and ELMo in, the mix's penalty in the loss, archives that stand alone."""

from os import PathLike
from pathlib import Path
from typing import Any, Optional, Union

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.models.model import _DEFAULT_WEIGHTS
from allennlp.modules import TextFieldEmbedder
from allennlp.nn import RegularizerApplicator

from elmo_tasks.elmo import Elmo, ElmoRepresentations
from elmo_tasks.strict_params import StrictParams

ELMO_INDEXER = "elmo"
"""The name of ELMo's token indexer in every reader's `token_indexers`."""


class ElmoModel(StrictParams, Model):
    """
    Base class of a task model with an optional `Elmo` beside its token vectors.

    # Parameters

    vocab : made from the training data.
    text_field_embedder : of every token indexer but `elmo`.
    elmo : the shared embedder, or `None` for the baseline.
    regularizer : as in any AllenNLP model; the mix's penalty is added to its penalty.
    """

    def __init__(
        self,
        *,
        vocab: Vocabulary,
        text_field_embedder: TextFieldEmbedder,
        elmo: Optional[Elmo] = None,
        regularizer: Optional[RegularizerApplicator] = None,
    ) -> None:
        super().__init__(vocab, regularizer)
        self.text_field_embedder = text_field_embedder
        self.elmo = elmo
        self.input_dim = text_field_embedder.get_output_dim() + (elmo.input_dim if elmo else 0)
        """Size of what `embed` returns for a token."""
        self.elmo_output_dim = elmo.output_dim if elmo else 0
        """Size of what `at_output` adds to the context encoder's output."""

    def embed(self, tokens: TextFieldTensors) -> tuple[torch.Tensor, ElmoRepresentations]:
        """
        *Shape:* `[x; ELMo]`, `(batch, tokens, input_dim)`, and the representations, for `at_output`.

        # Raises
        `ConfigurationError` if ELMo is placed and the reader does not index what its biLM reads.
        """
        words = {name: indexed for name, indexed in tokens.items() if name != ELMO_INDEXER}
        vectors = self.text_field_embedder(words)
        if self.elmo is None or self.elmo.bilm is None:
            return vectors, ElmoRepresentations(None, None)
        reads = self.elmo.bilm.token_encoder.reads
        indexed = tokens.get(ELMO_INDEXER)
        if indexed is None or reads not in indexed:
            found = ", ".join(tokens) if indexed is None else f"of another kind: {', '.join(indexed)}"
            raise ConfigurationError(
                f"the model has ELMo, but the token_indexers of the dataset reader are {found}; "
                f'expected also "{ELMO_INDEXER}": {{"type": "elmo_{reads}"}}'
            )
        elmo = self.elmo(indexed[reads])
        return append(vectors, elmo.input), elmo

    def at_output(self, encoded: torch.Tensor, elmo: ElmoRepresentations) -> torch.Tensor:
        """*Shape:* `[h; ELMo]`, `(batch, tokens, encoder dim + elmo_output_dim)`."""
        return append(encoded, elmo.output)

    def get_regularization_penalty(self) -> Optional[torch.Tensor]:
        penalties = [
            super().get_regularization_penalty(),
            self.elmo.penalty() if self.elmo else None,
        ]
        given = [penalty for penalty in penalties if penalty is not None]
        return sum(given[1:], start=given[0]) if given else None

    @classmethod
    def _load(
        cls,
        config: Params,
        serialization_dir: Union[str, PathLike],
        weights_file: Optional[Union[str, PathLike]] = None,
        cuda_device: int = -1,
    ) -> Model:
        """
        AllenNLP's hook for loading: the archive holds the biLM, so that the files it came from may be gone.
        """
        block = config["model"].get("elmo")
        if block is not None:
            state = archived_state(serialization_dir, weights_file)
            for key, value in Elmo.block_for_archive(state, "elmo.").items():
                block[key] = value
        return super()._load(config, serialization_dir, weights_file, cuda_device)


def archived_state(
    serialization_dir: Union[str, PathLike], weights_file: Optional[Union[str, PathLike]]
) -> dict[str, Any]:
    """What `Model._load` is about to load; mapped, not read, for the few parts that are wanted first."""
    return torch.load(
        weights_file or Path(serialization_dir) / _DEFAULT_WEIGHTS, map_location="cpu", mmap=True
    )


def append(vectors: torch.Tensor, more: torch.Tensor | None) -> torch.Tensor:
    """`[vectors; more]` along the features, or `vectors` where there is no more."""
    return vectors if more is None else torch.cat([vectors, more], dim=-1)
