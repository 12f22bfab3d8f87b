"""The config block of `Elmo`: which biLM, how it runs, and how its layers are mixed."""

from dataclasses import dataclass
from typing import Annotated, Any, Optional, Union

from elmo_tasks.elmo.inference.activations import Activations
from elmo_tasks.elmo.model import ElmoError
from elmo_tasks.elmo.model.scalar_mix import LAYERS, WEIGHTS
from elmo_tasks.elmo.sources import DEFAULT_OPTIONS, DEFAULT_WEIGHTS, configuration_errors
from elmo_tasks.values import Name, NonNegativeFloat, OneOf, Probability

PLACEMENTS = {
    "none": (),
    "input": ("input",),
    "output": ("output",),
    "input+output": ("input", "output"),
}


Placement = Annotated[str, OneOf(PLACEMENTS)]
"""Where a task takes ELMo's vectors in."""


@dataclass(frozen=True, kw_only=True)
class ElmoSource:
    """The parameters of `Elmo` that name the files of the biLM."""

    options_file: Union[Name, dict[str, Any]] = DEFAULT_OPTIONS
    weight_file: Optional[Name] = DEFAULT_WEIGHTS
    vocabulary_file: Optional[Name] = None


@dataclass(frozen=True, kw_only=True)
class ElmoUse:
    """
    The parameters of `Elmo` that say how the biLM runs.

    # Raises
    `ElmoError`, `ConfigurationError` in AllenNLP: two that do not go together.
    """

    dropout: Probability = 0.0
    trainable: bool = False
    stateful: bool = False
    initial_state: Optional[Name] = None
    activations: Optional[Union[Name, Activations]] = None
    precision: Name = "float32"

    @configuration_errors()
    def __post_init__(self) -> None:
        if self.stateful and self.initial_state is not None:
            raise ElmoError("initial_state is where a sentence starts with stateful: false")
        if self.activations is not None and self.trainable:
            raise ElmoError("activations are of a frozen biLM: not with trainable: true")
        if self.activations is not None and self.stateful:
            raise ElmoError("activations are of sentences on their own: not with stateful: true")
        if self.precision != "float32" and self.trainable:
            raise ElmoError(f"precision: {self.precision} is for a frozen biLM: not with trainable: true")


@dataclass(frozen=True, kw_only=True)
class ElmoMix:
    """The parameters of `Elmo` that say how layers are mixed."""

    layers: Annotated[str, OneOf(LAYERS)] = "all"
    weights: Annotated[str, OneOf(WEIGHTS)] = "trainable"
    gamma: bool = True
    layer_norm: bool = False
    mix_l2: Optional[NonNegativeFloat] = None
