"""The mixes that archived models have learned (Peters et al. 2018, Figure 2)."""

from typing import NamedTuple, cast

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from torch import nn

from elmo_tasks.archives import open_archive
from elmo_tasks.elmo import Elmo, FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model.scalar_mix import ScalarMix


class LearnedMix(NamedTuple):
    """One of the mixes of an archive."""

    model: str
    placement: str
    """`input` or `output`; in an ensemble, with the member before it."""
    mix: ScalarMix
    bilm: FrozenBiLm | TrainedBiLm

    def gamma(self) -> float:
        """Returns the scale, 1 if it is not learned."""
        return 1.0 if self.mix.gamma is None else self.mix.gamma.item()

    def kind(self) -> str:
        """Returns `weights` of the mix's config, or `top` if it has only the top layer."""
        if self.mix.top or self.mix.function:
            return "top" if self.mix.top else "function"
        return "trainable" if isinstance(self.mix.scores, nn.Parameter) else "frozen"

    def shares(self) -> list[float] | None:
        """Returns the normalised weight of each layer; `None` for a function of the token."""
        if self.mix.function:
            return None
        if self.mix.top:
            return [0.0] * (self.bilm.num_layers - 1) + [1.0]
        return self.mix.scores.detach().softmax(dim=0).tolist()


def read_mixes(archive: str) -> list[LearnedMix]:
    """Reads the mixes of an archive; a model without ELMo is a `ConfigurationError`."""
    opened = open_archive(archive)
    name = opened.config["model"]["type"]
    if not (mixes := mixes_of(opened.model, name)):
        raise ConfigurationError(f"{archive}: the model, {name}, has no ELMo")
    return mixes


def mixes_of(model: Model, name: str) -> list[LearnedMix]:
    """Returns the mixes of a model with this registered name; none if it has no ELMo."""
    return [
        LearnedMix(
            name,
            f"{path.removesuffix('elmo').rstrip('.')} {representation}".strip(),
            cast(ScalarMix, mix),
            module.bilm,
        )
        for path, module in model.named_modules()
        if isinstance(module, Elmo) and module.bilm is not None
        for representation, mix in module.mixes.items()
    ]


def same_weights(one: FrozenBiLm | TrainedBiLm, other: FrozenBiLm | TrainedBiLm) -> bool:
    """Returns whether two biLMs have the same weights, whatever their precision and device."""
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(
        torch.equal(weight.cpu(), second[name].cpu()) for name, weight in first.items()
    )
