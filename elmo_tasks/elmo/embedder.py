"""
The LSTM state that goes on from batch to batch, as the original ELMo has it.

The config block of `Elmo`: which biLM, how it runs, and how its layers are mixed.

`Elmo`: the one object that a task plugs.
"""

import json
from threading import Lock
from typing import Annotated, Any, NamedTuple, Optional, Protocol, Union, cast

import torch
from torch import nn

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.values import Name, NonNegativeFloat, OneOf, Probability, checked
from elmo_tasks.elmo.files import (
    DEFAULT_OPTIONS,
    DEFAULT_WEIGHTS,
    check_together,
    check_vocabulary,
    read_bilm,
    read_initial_state,
    read_options,
    read_words,
)
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.inference.activations import Activations
from elmo_tasks.elmo.model import BiLmOptions, LstmState, ScalarMix
from elmo_tasks.elmo.model.encoders import WordEncoder
from elmo_tasks.elmo.model.scalar_mix import LAYERS, WEIGHTS


class LayerEncoder(Protocol):
    """
    Encodes a batch with a biLM. `Elmo.forward` calls one of four: `SentenceEncoder`, `CarriedState`,
    `Activations`, or, in an ensemble, the encoder that its members share.
    """

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """
        Returns all layers of the biLM.

        *Shape:* `ids` `(batch, tokens, *id)` and `start`, a state of a batch of one, to `(layers, batch,
        tokens, 2 projection_dim)`, zero after the end of a sentence.
        """
        ...


class SentenceEncoder:
    """Encodes each sentence from the same state, so that it has the same vectors in any batch."""

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """See `LayerEncoder.encode`."""
        return bilm.encode(ids, start)


class CarriedState:
    """Encodes row i of a batch from the state in which row i of the batch before it ended."""

    def __init__(self) -> None:
        self.value: LstmState | None = None
        """The final state of each row; `None` before the first batch."""
        self._lock = Lock()

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """
        See `LayerEncoder.encode`. A row without a state begins at `start`; a row that is missing from the
        batch keeps its state.

        # Raises
        `ElmoError`: another call is under way.
        """
        if not self._lock.acquire(blocking=False):
            raise ElmoError(
                "found two calls at once of an Elmo with stateful: true, which carries its state from call "
                "to call; expected one after the other"
            )
        try:
            before = LstmState(*(part.expand(-1, -1, len(ids), -1) for part in start))
            if self.value is not None:
                carried = (part.to(like) for part, like in zip(self.value, start, strict=True))
                overlaid = _overlaid(LstmState(*carried), before)
                before = LstmState(*(part[:, :, : len(ids)] for part in overlaid))
            layers, after = bilm(ids, before)
            after = LstmState(*(part.detach() for part in after))
            self.value = _overlaid(after, self.value or after)
        finally:
            self._lock.release()
        return layers

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.value = state["value"]


def _overlaid(first: LstmState, second: LstmState) -> LstmState:
    """Returns all rows of `first`, and after them the rows that `second` has beyond."""
    return LstmState(
        *(
            torch.cat([part, other[:, :, part.size(2) :].to(part)], dim=2)
            for part, other in zip(first, second, strict=True)
        )
    )


# ==== elmo.config
PLACEMENTS = {
    "none": (),
    "input": ("input",),
    "output": ("output",),
    "input+output": ("input", "output"),
}


Placement = Annotated[str, OneOf(PLACEMENTS)]
"""Where a task takes ELMo's vectors in."""


# ==== elmo.embedder
FROM_STATE_DICT = "(state dict)"
"""In the place of a weight file: the weights come with a state dict that is loaded next."""


class ElmoRepresentations(NamedTuple):
    """
    What a task concatenates to its token vectors and to the output of its context encoder.

    *Shape:* each `(batch, tokens, Elmo.dim)`, or `None` where the placement has none.
    """

    input: torch.Tensor | None
    output: torch.Tensor | None


class Elmo(nn.Module):
    """
    Embeddings from language models (Peters et al. 2018, arXiv:1802.05365), as a module of PyTorch, and as a
    config block of AllenNLP.

    The biLM runs once a batch, whatever the placement; input and output have a mix of their own.

    # Parameters

    options_file, weight_file : path, URL or `hf://` name of the official `options.json` and HDF5 weights;
        the model that ships with the project by default. `options_file` may also be the options themselves,
        and `weight_file` `None` for a biLM with random weights, or, without `options_file`, a folder or zip
        of ELMoForManyLangs or of NLPL's repository.
    vocabulary_file : of a biLM that reads words: one word a line, in the order of its table (`read_words`).
        An archive does not need it.
    placement : `none`, `input`, `output` or `input+output`.
    dropout : probability, on each ELMo vector.
    layer_norm : normalise each layer over its own features at each token.
    mix_l2 : the paper's lambda in `lambda * ||w||^2` over the learned mix weights, or `None`.
    layers : `all`, or `top` for the last layer only.
    weights : `trainable`, `frozen` or `function`; see `ScalarMix`.
    gamma : learn the task's scale.
    trainable : fine-tune the biLM with the task. If not, no graph is built through it and no parameter of
        it reaches an optimizer.
    stateful : carry the LSTM state from batch to batch, as the original does: row i of a batch continues
        row i of the batch before it. If not, a sentence has the same vectors in any batch.
    initial_state : HDF5 file with the state that each sentence starts from (`read_initial_state`), or
        `None` for zeros; only without `stateful`.
    activations : folder in which the biLM's layers of each distinct sentence are kept and found again, in
        later epochs and runs; or a block of the parameters of `Activations`. Not with `trainable` or
        `stateful`.
    precision : of the frozen biLM's products: `float32`, or, faster and not exact, `bfloat16`.

    # Raises
    `ElmoError`; from a config block its `ConfigurationError`: values that cannot be, or not
    together, an `activations` folder that cannot be written to or is of an earlier version, and whatever is
    wrong in the files. `FileNotFoundError`.
    """

    options: torch.Tensor
    bilm: FrozenBiLm | TrainedBiLm | None
    start_hidden: torch.Tensor
    start_memory: torch.Tensor

    @checked
    def __init__(
        self,
        options_file: Union[Name, dict[str, Any]] = DEFAULT_OPTIONS,
        weight_file: Optional[Name] = DEFAULT_WEIGHTS,
        *,
        vocabulary_file: Optional[Name] = None,
        placement: Placement = "input",
        dropout: Probability = 0.0,
        layers: Annotated[str, OneOf(LAYERS)] = "all",
        weights: Annotated[str, OneOf(WEIGHTS)] = "trainable",
        gamma: bool = True,
        layer_norm: bool = False,
        mix_l2: Optional[NonNegativeFloat] = None,
        trainable: bool = False,
        stateful: bool = False,
        initial_state: Optional[Name] = None,
        activations: Optional[Union[Name, Activations]] = None,
        precision: Name = "float32",
    ) -> None:
        super().__init__()
        if stateful and initial_state is not None:
            raise ElmoError("initial_state is where a sentence starts with stateful: false")
        if activations is not None and trainable:
            raise ElmoError("activations are of a frozen biLM: not with trainable: true")
        if activations is not None and stateful:
            raise ElmoError("activations are of sentences on their own: not with stateful: true")
        if precision != "float32" and trainable:
            raise ElmoError(f"precision: {precision} is for a frozen biLM: not with trainable: true")
        self.placement = placement
        self.mix_l2 = mix_l2
        self.trainable = trainable
        self.stateful = stateful
        places = PLACEMENTS[placement]
        if places and weight_file not in (None, FROM_STATE_DICT):
            check_together(
                None if options_file == DEFAULT_OPTIONS else str(options_file),
                None if weight_file == DEFAULT_WEIGHTS else weight_file,
                names="options_file and weight_file",
            )
        options = read_options(options_file, None if weight_file == FROM_STATE_DICT else weight_file)
        self.dim = options.output_dim
        self.mixes = nn.ModuleDict(
            {
                place: ScalarMix(
                    num_layers=options.n_layers + 1,
                    dim=self.dim,
                    layers=layers,
                    weights=weights,
                    gamma=gamma,
                    layer_norm=layer_norm,
                )
                for place in places
            }
        )
        self.dropout = nn.Dropout(dropout)
        self.bilm = (
            _bilm(options, weight_file, vocabulary_file, trainable=trainable, precision=precision)
            if places
            else None
        )
        # With the options and the start inside, a state dict is all that an archive needs.
        as_bytes = json.dumps(options.to_json()).encode()
        self.register_buffer("options", torch.tensor(list(as_bytes), dtype=torch.uint8))
        start = (
            read_initial_state(initial_state, options)
            if initial_state is not None
            else (
                torch.zeros(options.n_layers, 2, options.projection_dim),
                torch.zeros(options.n_layers, 2, options.dim),
            )
        )
        self.register_buffer("start_hidden", start[0])
        self.register_buffer("start_memory", start[1])
        self.carried = CarriedState()
        self.activations = None if activations is None else Activations.of(activations)
        if self.activations is not None and self.bilm is not None:
            self.activations.prepare()
        self.encoder: LayerEncoder = self.carried if stateful else self.activations or SentenceEncoder()
        self.register_load_state_dict_pre_hook(_check_options)

    @classmethod
    def from_params(cls, params: Any, **extras: Any) -> "Elmo":
        """What AllenNLP calls for a config block: `Params`, checked as by `StrictParams`."""
        from elmo_tasks.common.strict_params import StrictParams

        strict: Any = type(cls.__name__, (StrictParams, cls), {})
        return strict.from_params(params, constructor_to_call=cls, **extras)

    @staticmethod
    def block_for_archive(state: dict[str, torch.Tensor], prefix: str) -> dict[str, Any]:
        """
        The keys of the config block with which an archived `Elmo` is built again: its sizes are in the state
        dict, under `prefix`, and its weights and words are loaded from there, so that no original file is
        needed; nor a folder of activations.
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
        """What the placement adds to each token vector; 0 for nothing."""
        return self.dim if "input" in self.mixes else 0

    @property
    def output_dim(self) -> int:
        """What the placement adds to each output of the context encoder; 0 for nothing."""
        return self.dim if "output" in self.mixes else 0

    @property
    def start(self) -> LstmState:
        """Where each sentence starts without `stateful`, of a batch of one."""
        return LstmState(self.start_hidden.unsqueeze(2), self.start_memory.unsqueeze(2))

    def penalty(self) -> torch.Tensor | None:
        """`mix_l2 * ||w||^2` over all mixes, to be added to the loss; `None` without `mix_l2`."""
        if self.mix_l2 is None or not self.mixes:
            return None
        norms = torch.stack([cast(ScalarMix, mix).squared_norm() for mix in self.mixes.values()])
        return self.mix_l2 * norms.sum()

    def reset_state(self) -> None:
        """Lets the next batch start a new text, if `stateful`."""
        self.carried.value = None

    def forward(self, ids: torch.Tensor) -> ElmoRepresentations:
        """
        Encodes a batch, and mixes the layers for each place.

        *Shape:* `ids` `(batch, tokens, 50)`, of `bilm.padded_ids` or the `elmo_character_ids` indexer, or of
        `elmo_unicode_ids` if the biLM has a dictionary of characters, or `(batch, tokens)`, of
        `elmo_word_ids` if it reads words. Vectors after the end of a sentence are zero.
        """
        if self.bilm is None:
            return ElmoRepresentations(None, None)
        encode = self.encoder.encode
        if torch.compiler.is_compiling():
            # `torch.compile` cannot trace the caches and kernels.
            encode = torch.compiler.disable(encode)
        layers = encode(self.bilm, ids, self.start)
        mixed = {place: self.dropout(mix(layers)) for place, mix in self.mixes.items()}
        return ElmoRepresentations(mixed.get("input"), mixed.get("output"))


def _check_options(
    elmo: Elmo,
    state: dict[str, torch.Tensor],
    prefix: str,
    metadata: object,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """PyTorch's hook before a state dict is loaded: its weights may fit a biLM of other options, too."""
    buffer = state.get(f"{prefix}options")
    if elmo.bilm is None or buffer is None:
        return
    stored_options = _options_in(buffer)
    for section, expected in elmo.bilm.options.to_json().items():
        stored = stored_options.get(section)
        if stored != expected:
            errors.append(f"{prefix}options: {section} is {stored}, expected {expected}")


def _options_in(buffer: torch.Tensor) -> dict[str, Any]:
    """The content of `options.json` that the buffer `options` of an `Elmo` holds."""
    content: dict[str, Any] = json.loads(bytes(buffer.tolist()))
    return content


def _bilm(
    options: BiLmOptions,
    weight_file: str | None,
    vocabulary_file: str | None,
    *,
    trainable: bool,
    precision: str,
) -> FrozenBiLm | TrainedBiLm:
    """See `Elmo`. With neither weights nor a state dict to come they are random."""
    if weight_file == FROM_STATE_DICT:
        return TrainedBiLm(options=options) if trainable else FrozenBiLm(options=options, precision=precision)
    if weight_file is None:
        check_vocabulary(options, weight_file, vocabulary_file)
        bilm = TrainedBiLm(options=options)
        if vocabulary_file is not None and isinstance(bilm.token_encoder, WordEncoder):
            bilm.token_encoder.set_vocabulary(read_words(vocabulary_file))
        if trainable:
            return bilm
        return FrozenBiLm(options=options, precision=precision, weights=bilm.state_dict())
    return read_bilm(options, weight_file, vocabulary_file, trainable=trainable, precision=precision)
