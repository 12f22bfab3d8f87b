"""`Elmo`, which a task plugs: it holds a biLM, runs it once a batch, and mixes its layers."""

import json
from collections.abc import Iterable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional, Protocol, Union, cast

import torch
from torch import nn
from torch.autograd import Function

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.values import FileName, NonNegativeFloat, Probability, checked
from elmo_tasks.elmo.files import (
    DEFAULT_OPTIONS,
    DEFAULT_WEIGHTS,
    Precision,
    check_together,
    read_bilm,
    read_initial_state,
    read_options,
    trained_copy,
)
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.inference.activations import Activations
from elmo_tasks.elmo.model import LstmState, ScalarMix
from elmo_tasks.elmo.model.encoders import is_traced
from elmo_tasks.elmo.model.scalar_mix import LayerChoice, Weights

Placement = Literal["none", "input", "output", "input+output"]
"""The token representations to which a task concatenates ELMo's vectors."""
FROM_STATE_DICT = "(state dict)"
"""In place of a weight file: the weights come from a state dict that is loaded next."""


class ElmoRepresentations(NamedTuple):
    """
    The vectors that a task concatenates to its token vectors, and to the output of its context encoder.

    *Shape:* each `(batch, tokens, Elmo.dim)`, or `None` where the placement has none.
    """

    # `Any` instead of `None`, which each user of `Elmo` would have to exclude for a type checker.
    input: torch.Tensor | Any
    output: torch.Tensor | Any


class Mixes(nn.ModuleDict):
    """The mix of each representation, `input` or `output`."""

    def __getitem__(self, representation: str) -> ScalarMix:
        return cast(ScalarMix, super().__getitem__(representation))


class Elmo(nn.Module):
    """
    Embeddings from language models (Peters et al. 2018, arXiv:1802.05365).

    The biLM runs once a batch, whatever the placement. The input and the output have a mix each.

    # Parameters

    options_file, weight_file : path, URL or `hf://` name of the official `options.json` and weights, HDF5 or
        safetensors; by default the model that ships with the project. `options_file` may also be the options
        themselves. `weight_file` may be `None` for random weights, with `trainable` as a rule; or, without
        `options_file`, a folder or zip of `allennlp elmo export`, of ELMoForManyLangs or of NLPL's
        repository.
    vocabulary_file : the words of a biLM that reads words, one a line, in the order of its table
        (`read_words`). An archive does not need it.
    placement : `none`, `input`, `output` or `input+output`.
    dropout : the dropout rate of each ELMo vector.
    layers : `all`, or `top` for the last layer only.
    weights : of all layers: `trainable`, `frozen` or `function`; see `ScalarMix`.
    gamma : learn the task's scale.
    layer_norm : normalise each layer over its own features at each token.
    mix_l2 : the paper's lambda in `lambda * ||w||^2` over the learned mix weights, or `None`. Not with
        `layers` `top` or `weights` `frozen`, which learn none.
    trainable : fine-tune the biLM with the task. Otherwise no graph is built through it, and no parameter of
        it reaches an optimizer, until `requires_grad_(True)` of the `Elmo` itself, before the optimizer is
        made. `requires_grad_` of a module around it leaves the biLM frozen.
    stateful : carry the LSTM state from batch to batch, as the original does: row i of a batch continues
        row i of the batch before it. Otherwise a sentence has the same vectors in any batch.
    initial_state : HDF5 file with the state that each sentence starts from (`read_initial_state`), or
        `None` for zeros; only without `stateful`.
    activations : folder that keeps the biLM's layers of each distinct sentence, for later epochs and runs; or
        a block of the parameters of `Activations`. Not with `trainable` or `stateful`.
    precision : of the frozen biLM's products: `float32`, or `bfloat16`, which is faster and not exact.

    # Raises
    `ElmoError`, and `ConfigurationError` for a config block: values that are wrong, or exclude each other; an
    `activations` folder that cannot be written to; and errors in the files.
    `FileNotFoundError`.
    """

    options: torch.Tensor
    bilm: FrozenBiLm | TrainedBiLm | None
    start_hidden: torch.Tensor
    start_memory: torch.Tensor

    @checked
    def __init__(
        self,
        options_file: Union[FileName, dict[str, Any]] = DEFAULT_OPTIONS,
        weight_file: Optional[FileName] = DEFAULT_WEIGHTS,
        *,
        vocabulary_file: Optional[FileName] = None,
        placement: Placement = "input",
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
    ) -> None:
        super().__init__()
        from_state_dict = weight_file == FROM_STATE_DICT
        file = None if from_state_dict else weight_file
        _check_requirement("initial_state", initial_state is not None, "`stateful: false`", not stateful)
        _check_requirement("activations", activations is not None, "`stateful: false`", not stateful)
        if trainable:
            _check_trainable(activations, precision)
        _check_requirement(
            "mix_l2",
            # An archive may be of a version that took `mix_l2` with any mix.
            bool(mix_l2) and not from_state_dict,
            "learned mix weights: not `placement: none`, `layers: top` or `weights: frozen`",
            placement != "none" and layers != "top" and weights != "frozen",
        )
        has_other_weights = weights != "trainable" and not from_state_dict
        _check_requirement("weights", has_other_weights, "`layers: all`", layers == "all")
        self.placement = placement
        self.mix_l2 = mix_l2
        self.trainable = trainable
        self.stateful = stateful
        representations = () if placement == "none" else tuple(placement.split("+"))
        if representations and file is not None:
            check_together(
                None if options_file == DEFAULT_OPTIONS else str(options_file),
                None if file == DEFAULT_WEIGHTS else file,
                names="options_file and weight_file",
            )
        options = read_options(options_file, file)
        self.dim = options.output_dim
        self.mixes = Mixes(
            {
                representation: ScalarMix(
                    num_layers=options.n_layers + 1,
                    dim=self.dim,
                    layers=layers,
                    weights=weights,
                    gamma=gamma,
                    layer_norm=layer_norm,
                )
                for representation in representations
            }
        )
        self.dropout = nn.Dropout(dropout)
        if not representations:
            self.bilm = None
        elif not from_state_dict:
            self.bilm = read_bilm(options, file, vocabulary_file, trainable=trainable, precision=precision)
        elif trainable:
            self.bilm = TrainedBiLm(options=options)
        else:
            self.bilm = FrozenBiLm(options=options, precision=precision)
        # With the options and the initial state, the state dict is all that an archive needs.
        as_bytes = json.dumps(options.to_json()).encode()
        self.register_buffer("options", torch.tensor(list(as_bytes), dtype=torch.uint8))
        hidden, cell = (
            read_initial_state(initial_state, options, None if file is None else self.bilm)
            if initial_state is not None
            else (torch.zeros(options.n_layers, 2, size) for size in (options.projection_dim, options.dim))
        )
        self.register_buffer("start_hidden", hidden)
        self.register_buffer("start_memory", cell)
        self.carried = CarriedState()
        self.activations = None if activations is None else Activations.of(activations)
        if self.activations is not None and self.bilm is not None:
            self.activations.prepare()
        self.encoder: LayerEncoder = self.carried if stateful else self.activations or SentenceEncoder()
        # PyTorch 2.5 and later also have this method without the underscore.
        self._register_load_state_dict_pre_hook(_check_state_options, with_module=True)

    @classmethod
    def from_params(cls, params: Any, **extras: object) -> "Elmo":
        """Builds the object of a config block, AllenNLP's `Params`, which is checked as by `StrictParams`."""
        from elmo_tasks.common.strict_params import build_from_block  # needs AllenNLP

        return cast(Elmo, build_from_block(cls, params, **extras))

    @staticmethod
    def block_for_archive(state: dict[str, torch.Tensor], prefix: str) -> dict[str, Any]:
        """
        Returns the keys of the config block with which an archived `Elmo` is built again. It needs neither
        the original files nor a folder of activations: the sizes are in the state dict, under `prefix`, and
        the weights and words are loaded from there.
        """
        return {
            "options_file": _options_in(state[f"{prefix}options"]),
            "weight_file": FROM_STATE_DICT,
            "vocabulary_file": None,
            "initial_state": None,
            "activations": None,
        }

    @property
    def input_dim(self) -> int:
        """The size that the placement adds to each token vector; 0 for nothing."""
        return self.dim if "input" in self.mixes else 0

    @property
    def output_dim(self) -> int:
        """The size that the placement adds to each output of the context encoder; 0 for nothing."""
        return self.dim if "output" in self.mixes else 0

    @property
    def start(self) -> LstmState:
        """The state that each sentence starts from without `stateful`, of a batch of one."""
        return LstmState(self.start_hidden.unsqueeze(2), self.start_memory.unsqueeze(2))

    def padded_ids(self, sentences: Iterable[Iterable[str]]) -> torch.Tensor:
        """
        Returns the ids of sentences, on the biLM's device, as `forward` reads them. A text in place of its
        tokens is an `ElmoError`, and so is `placement: none`, which has no biLM.

        *Shape:* `(sentences, longest, *id)`, 0 after the end of a sentence.
        """
        if self.bilm is None:
            raise ElmoError("reads no ids with `placement: none`", where="Elmo")
        return self.bilm.padded_ids(sentences)

    def penalty(self) -> torch.Tensor | None:
        """Returns `mix_l2 * ||w||^2` over all mixes, to be added to the loss; `None` without `mix_l2`."""
        if self.mix_l2 is None or not self.mixes:
            return None
        norms = torch.stack([self.mixes[representation].squared_norm() for representation in self.mixes])
        return self.mix_l2 * norms.sum()

    def reset_state(self) -> None:
        """Lets the next batch start a new text, if `stateful`."""
        self.carried.value = None

    reset_states = reset_state  # AllenNLP's name

    def requires_grad_(self, requires_grad: bool = True) -> "Elmo":
        """
        Freezes or unfreezes all weights. A biLM that is unfrozen becomes a trainable one; with a `precision`
        or `activations` that only a frozen one has, it is an `ElmoError`.
        """
        if requires_grad and isinstance(self.bilm, FrozenBiLm):
            _check_trainable(self.activations, self.bilm.precision)
            self.bilm = trained_copy(self.bilm).train(self.training)
            self.trainable = True
        return super().requires_grad_(requires_grad)

    if TYPE_CHECKING:
        # PyTorch says that it takes and returns anything.
        def __call__(self, ids: torch.Tensor) -> ElmoRepresentations: ...

    def forward(self, ids: torch.Tensor) -> ElmoRepresentations:
        """
        Encodes a batch, and mixes the layers for each representation.

        *Shape:* `ids` `(batch, tokens, 50)`, of `padded_ids` or the `elmo_character_ids` indexer, or of
        `elmo_unicode_ids` if the biLM has a dictionary of characters; there may be more dimensions between
        the two first, as in `(batch, entities, tokens, 50)`. Or `(batch, tokens)`, of `elmo_word_ids`, if it
        reads words. Vectors after the end of a sentence are zero. Other ids are an `ElmoError`.
        """
        if self.bilm is None:
            return ElmoRepresentations(None, None)
        if not isinstance(ids, torch.Tensor):
            raise ElmoError(
                f"a {type(ids).__name__} is not a tensor of ids", remedy="use padded_ids(sentences)"
            )
        outer = ids.shape[:-2] if ids.dim() > 3 else ids.shape[:1]
        layers = self._encode(self.bilm, ids.flatten(0, len(outer) - 1))
        mixed = {
            representation: self.dropout(mix(layers)).unflatten(0, outer)
            for representation, mix in self.mixes.items()
        }
        return ElmoRepresentations(mixed.get("input"), mixed.get("output"))

    def _encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens, *id)` to `(layers, batch, tokens, dim)`."""
        encode = self.encoder.encode
        is_frozen = isinstance(bilm, FrozenBiLm)
        if torch._C._is_tracing():
            raise ElmoError(
                "torch.jit.trace cannot trace a biLM, whose steps depend on the words",
                remedy="use torch.export after requires_grad_(True) of the Elmo",
            )
        if torch.compiler.is_dynamo_compiling():
            # `torch.compile` cannot trace the caches and kernels.
            encode = torch.compiler.disable(encode)
        elif torch.compiler.is_exporting():
            if is_frozen:
                raise ElmoError(
                    "torch.export cannot trace a frozen biLM",
                    remedy="call requires_grad_(True) of the Elmo before the export",
                )
        elif is_frozen and is_traced():
            encode = partial(OutsideTransforms.apply, encode)
        return encode(bilm, ids, self.start)


class OutsideTransforms(Function):
    """`apply(encode, bilm, ids, start)`: the layers of a frozen biLM, as constants of `torch.func`."""

    @staticmethod
    def forward(encode: Any, bilm: FrozenBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        return encode(bilm, ids, start)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(
        info: object,
        in_dims: tuple[Any, ...],
        encode: Any,
        bilm: FrozenBiLm,
        ids: torch.Tensor,
        start: LstmState,
    ) -> tuple[torch.Tensor, int]:
        ids = ids.movedim(in_dims[2], 0)
        layers = OutsideTransforms.apply(encode, bilm, ids.flatten(0, 1), start)
        return layers.unflatten(1, ids.shape[:2]), 1


def _check_requirement(key: str, is_set: bool, requirement: str, is_met: bool) -> None:
    if is_set and not is_met:
        raise ElmoError(f"`{key}` requires {requirement}")


def _check_trainable(activations: object, precision: str) -> None:
    _check_requirement("activations", activations is not None, "`trainable: false`", is_met=False)
    _check_requirement(f"precision: {precision}", precision != "float32", "`trainable: false`", is_met=False)


def _check_state_options(elmo: Elmo, state: dict[str, torch.Tensor], prefix: str, *arguments: Any) -> None:
    """PyTorch's hook: refuses the state dict of other options, whose weights may have the same shapes."""
    *_, errors = arguments
    buffer = state.get(f"{prefix}options")
    if elmo.bilm is None or buffer is None:
        return
    stored_options = _options_in(buffer)
    for section, expected in elmo.bilm.options.to_json().items():
        stored = stored_options.get(section)
        if stored != expected:
            errors.append(f"{prefix}options: {section} is {stored} instead of {expected}")


def _options_in(buffer: torch.Tensor) -> dict[str, Any]:
    return json.loads(bytes(buffer.tolist()))


class LayerEncoder(Protocol):
    """The encoder of batches: `SentenceEncoder`, `CarriedState`, `Activations`, or one of an ensemble."""

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """
        Returns all layers of the biLM.

        *Shape:* `ids` `(batch, tokens, *id)` and `start`, a state of a batch of one, to `(layers, batch,
        tokens, 2 projection_dim)`, zero after the end of a sentence.
        """
        ...


class SentenceEncoder:
    """Starts each sentence from the same state, so that it has the same vectors in any batch."""

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        return bilm.encode(ids, start)


class OneAtATime:
    """A lock that refuses a second thread, since a state is carried from call to call."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return OneAtATime, ()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ElmoError(
                "two threads called an Elmo with `stateful: true`, which carries its state from call to call",
                remedy="call it from one thread",
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class CarriedState:
    """Starts row i of a batch from the state in which row i of the batch before it ended."""

    def __init__(self) -> None:
        self.value: LstmState | None = None
        """The final state of each row; `None` before the first batch."""
        self._one_at_a_time = OneAtATime()

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """Returns all layers. A row without a state begins at `start`; a missing row keeps its state."""
        with self._one_at_a_time:
            before = LstmState(*(part.expand(-1, -1, len(ids), -1) for part in start))
            if self.value is not None:
                carried = (part.to(like) for part, like in zip(self.value, start, strict=True))
                overlaid = _overlaid(LstmState(*carried), before)
                before = LstmState(*(part[:, :, : len(ids)] for part in overlaid))
            layers, after = bilm(ids, before)
            after = LstmState(*(part.detach() for part in after))
            self.value = _overlaid(after, self.value or after)
        return layers


def _overlaid(first: LstmState, second: LstmState) -> LstmState:
    """Returns the rows of `first`, followed by the rows of `second` after as many."""
    return LstmState(
        *(
            torch.cat([part, other[:, :, part.size(2) :].to(part)], dim=2)
            for part, other in zip(first, second, strict=True)
        )
    )
