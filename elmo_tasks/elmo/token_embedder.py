"""
`Elmo` in AllenNLP: the token embedder, for any model that has a `text_field_embedder`; the token indexers,
whose ids need no vocabulary; and the biLM of an archived model, which is built from the archive alone.
"""

from pathlib import Path
from typing import Any, ClassVar, Optional, Union
from weakref import WeakSet
from zipfile import is_zipfile

import numpy as np
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, TokenIndexer, Vocabulary
from allennlp.models.archival import _WEIGHTS_NAME, CONFIG_NAME
from allennlp.models.model import _DEFAULT_WEIGHTS
from allennlp.modules import TokenEmbedder
from allennlp.nn.regularizers import Regularizer
from torch import nn

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import FileName, NonNegativeFloat, NonNegativeInt, Probability, Size
from elmo_tasks.elmo.embedder import Elmo
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS, Precision
from elmo_tasks.elmo.inference.activations import Activations
from elmo_tasks.elmo.model.encoders import CharacterEncoder, TokenEncoder, UnicodeEncoder, WordEncoder
from elmo_tasks.elmo.model.scalar_mix import LayerChoice, Weights

ARCHIVED_WEIGHTS = _WEIGHTS_NAME
"""The name of the state dict in an archive; the folder of a run has another name for it."""


def archived_state(folder: FilePath, weights_file: FilePath | None = None) -> dict[str, Any]:
    """Maps the state dict that `Model._load` will read, without reading it; one of PyTorch 1.5 is read."""
    file = weights_file or Path(folder) / _DEFAULT_WEIGHTS
    return torch.load(file, map_location="cpu", mmap=is_zipfile(file), weights_only=True)


def archived_block(folder: FilePath, path: str) -> dict[str, Any] | None:
    """Returns the block at a `path` such as `model.elmo` of an archive's own config, or `None`."""
    config = Path(folder) / CONFIG_NAME
    if not config.exists():
        return None
    block: Any = Params.from_file(str(config)).as_dict(quiet=True)
    for key in path.split("."):
        block = block.get(key) if isinstance(block, dict) else None
    return block


def elmo_from_state(
    block: Params,
    state: dict[str, torch.Tensor],
    prefix: str,
    *,
    path: str = "model.elmo",
    archived: dict[str, Any] | None = None,
) -> None:
    """
    Changes the config block of an archived `Elmo`, so that it needs its state dict alone.

    # Parameters

    prefix : of its weights in the state dict.
    path : of the block in the config.
    archived : the block in the archive, which shows what was overridden: it is a `ConfigurationError` to
        override a key whose content the archive holds itself.
    """
    for key, value in Elmo.block_for_archive(state, prefix).items():
        overridden = archived is not None and block.get(key) != archived.get(key)
        if not overridden:
            block[key] = value
        elif key != "activations":
            raise ConfigurationError(
                f"{path}.{key}: {block.get(key)!r} overrides the biLM that the archive holds; train again to "
                "use another biLM"
            )


ELMO_INDEXER = "elmo"
"""The name of ELMo's token indexer in every reader's `token_indexers`."""
Ids = dict[str, np.ndarray]


class IdIndexer(StrictParams, TokenIndexer):
    """
    Turns the words of a `TextField` into one tensor of ids, with 0 after the end of a sentence.

    # Parameters

    token_min_padding_length : shorter sentences are padded to this length, as with AllenNLP's indexers.
    """

    encoder: ClassVar[type[TokenEncoder]]
    """The token layer that reads the ids; it names their tensor, too."""

    def __init__(self, *, token_min_padding_length: NonNegativeInt = 0) -> None:
        super().__init__(token_min_padding_length)

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        pass

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> Ids:
        return {self.encoder.reads: self.encoder.ids(token.text or "" for token in tokens)}

    def get_empty_token_list(self) -> Ids:
        return {self.encoder.reads: self.encoder.ids([])}

    def as_padded_tensor_dict(self, tokens: Ids, padding_lengths: dict[str, int]) -> dict[str, torch.Tensor]:
        name = self.encoder.reads
        ids = tokens[name][: padding_lengths[name]]
        padded = np.zeros((padding_lengths[name], *ids.shape[1:]), dtype=ids.dtype)
        padded[: len(ids)] = ids
        return {name: torch.from_numpy(padded)}


@TokenIndexer.register("elmo_character_ids")
class ElmoCharacterIndexer(IdIndexer):
    """The official character ids: `character_ids`, `(batch, tokens, 50)`, `int16`."""

    encoder = CharacterEncoder


@TokenIndexer.register("elmo_unicode_ids")
class ElmoUnicodeIndexer(IdIndexer):
    """The ids of characters by a dictionary: `unicode_ids`, `(batch, tokens, 50)`, `int32`."""

    encoder = UnicodeEncoder


@TokenIndexer.register("elmo_word_ids")
class ElmoWordIndexer(IdIndexer):
    """The ids of words for a biLM with a table: `word_ids`, `(batch, tokens)`, `int64`."""

    encoder = WordEncoder


@TokenEmbedder.register("elmo")
class ElmoTokenEmbedder(StrictParams, TokenEmbedder):
    """
    `Elmo` at the input of a model. The model's archive needs no other file.

    Its token indexer is `elmo_character_ids`, AllenNLP's `elmo_characters`, or, if the biLM reads words,
    `elmo_word_ids`.

    # Parameters

    projection_dim : the size of a learned layer that the vectors are projected by, or `None` for none.
    The others : see `Elmo`. `mix_l2` reaches the loss of a model whose `regularizer` has the type `elmo_mix`
        for these parameters.
    """

    def __init__(
        self,
        options_file: Union[FileName, dict[str, Any]] = DEFAULT_OPTIONS,
        weight_file: Optional[FileName] = DEFAULT_WEIGHTS,
        *,
        vocabulary_file: Optional[FileName] = None,
        dropout: Probability = 0.0,
        layers: LayerChoice = "all",
        weights: Weights = "trainable",
        gamma: bool = True,
        layer_norm: bool = False,
        mix_l2: Optional[NonNegativeFloat] = None,
        trainable: bool = False,
        stateful: bool = False,
        initial_state: Optional[FileName] = None,
        activations: Optional[Union[FileName, Activations]] = None,
        precision: Precision = "float32",
        projection_dim: Optional[Size] = None,
    ) -> None:
        super().__init__()
        self.elmo = Elmo(
            options_file,
            weight_file,
            vocabulary_file=vocabulary_file,
            placement="input",
            dropout=dropout,
            layers=layers,
            weights=weights,
            gamma=gamma,
            layer_norm=layer_norm,
            mix_l2=mix_l2,
            trainable=trainable,
            stateful=stateful,
            initial_state=initial_state,
            activations=activations,
            precision=precision,
        )
        self.projection = nn.Linear(self.elmo.dim, projection_dim) if projection_dim else None
        self._regularized: set[str] = set()
        """The weights of the mix that a regularizer has been given, by name."""
        self._first_weights: dict[str, torch.Tensor] = {}
        """The weights of the mix at the first training batch, while no regularizer has been given them."""
        _embedders.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _embedders.add(self)

    @classmethod
    def prepare_block(cls, params: Params, **extras: Any) -> None:
        """Takes the biLM of an archive from the archive's weights."""
        super().prepare_block(params, **extras)
        folder = extras.get("serialization_dir")
        if folder is not None and (weights := Path(folder) / ARCHIVED_WEIGHTS).exists():
            path = params.history.rstrip(".")
            state = archived_state(folder, weights)
            prefix = _prefix(state, path)
            elmo_from_state(params, state, prefix, path=path, archived=archived_block(folder, path))

    def get_output_dim(self) -> int:
        return self.elmo.dim if self.projection is None else self.projection.out_features

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens, 50)`, or word ids `(batch, tokens)`, to `(batch, tokens, dim)`."""
        if self.training and torch.is_grad_enabled():
            self._check_regularizer()
        vectors = self.elmo(ids).input
        return vectors if self.projection is None else self.projection(vectors)

    def penalty(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """Returns `mix_l2 * ||w||^2` of a weight of the mix; `None` for any other parameter."""
        for name, weight in self._penalized().items():
            if weight is parameter:
                self._regularized.add(name)
                return (self.elmo.mix_l2 or 0.0) * parameter.square().sum()
        return None

    def _penalized(self) -> dict[str, nn.Parameter]:
        if self.elmo.mix_l2 is None:
            return {}
        mixes = self.elmo.mixes.named_parameters()
        return {name: weight for name, weight in mixes if not name.endswith("gamma")}

    def _check_regularizer(self) -> None:
        """Raises `ConfigurationError` if `mix_l2` is set, and training has changed a weight without it."""
        for name, weight in self._penalized().items():
            if name in self._regularized or not weight.requires_grad:
                continue
            first = self._first_weights.setdefault(name, weight.detach().clone())
            if not torch.equal(weight, first.to(weight)):
                raise ConfigurationError(
                    f"mix_l2 is {self.elmo.mix_l2}, but the model has no regularizer for it; add to it "
                    '"regularizer": {"regexes": [["elmo", {"type": "elmo_mix"}]]}'
                )


_embedders: WeakSet[ElmoTokenEmbedder] = WeakSet()
"""All embedders: AllenNLP gives `ElmoMixRegularizer` one parameter at a time, and not the model."""


def _prefix(state: dict[str, torch.Tensor], path: str) -> str:
    """Finds the prefix of an embedder's weights in the state dict, by the `path` of its block."""
    name = path.rpartition(".")[2]
    ending = f"token_embedder_{name}.elmo.options"
    options = [key for key in state if key.endswith(ending)]
    if len({tuple(state[key].tolist()) for key in options}) != 1:
        raise ConfigurationError(
            f"{path}: the archive has {len(options)} biLMs of this name, with different options"
        )
    return options[0].removesuffix("options")


@Regularizer.register("elmo_mix")
class ElmoMixRegularizer(StrictParams, Regularizer):
    """
    The penalty `mix_l2 * ||w||^2` of the paper, section 3.2, for each mix weight of an `ElmoTokenEmbedder`
    with `mix_l2`; 0 for all other parameters.

    In the config of a model:

        "regularizer": {"regexes": [["elmo", {"type": "elmo_mix"}]]}
    """

    def __init__(self) -> None:
        super().__init__()

    def __call__(self, parameter: torch.Tensor) -> torch.Tensor:
        penalties = (embedder.penalty(parameter) for embedder in list(_embedders))
        own = next((penalty for penalty in penalties if penalty is not None), None)
        return 0.0 * parameter.square().sum() if own is None else own
