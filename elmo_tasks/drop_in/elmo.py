"""
AllenNLP's `_ElmoBiLm` and `Elmo`, run by our engine.

The modules are AllenNLP's own, so that parameters, modules and state dicts have AllenNLP's names, shapes and
order, frozen or not. The engine reads its weights from them at each call.
"""

from collections.abc import Iterator
from typing import Any, List, Optional  # noqa: UP035  AllenNLP's from_params reads List

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.elmo import _ElmoBiLm, _ElmoCharacterEncoder
from allennlp.modules.elmo_lstm import ElmoLstm
from allennlp.modules.highway import Highway
from torch import nn
from torch.func import functional_call

from elmo_tasks.elmo.embedder import OneAtATime
from elmo_tasks.elmo.files import read_frozen_bilm, read_options
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.inference.trained_bilm import FrozenCopy
from elmo_tasks.elmo.inference.training_products import Products
from elmo_tasks.elmo.model import BiLmOptions, CharacterOptions, LstmState
from elmo_tasks.elmo.model.bilm import structure, with_bos_eos
from elmo_tasks.elmo.model.characters import NUM_CHARACTERS
from elmo_tasks.elmo.model.encoders import CharacterEncoder

StateDict = dict[str, torch.Tensor]


class ElmoBiLm(_ElmoBiLm):
    """
    `_ElmoBiLm` with the same modules and results, faster.

    A call that needs no gradient of a weight runs a frozen biLM of the current weights. AllenNLP's
    own code runs words from `vocab_to_cache`, ids that no indexer makes, and any call while foreign modules
    or hooks are inside.

    A biLM that AllenNLP cannot hold is a `ConfigurationError`.
    """

    def __init__(
        self,
        options_file: str,
        weight_file: str,
        requires_grad: bool = False,
        vocab_to_cache: Optional[List[str]] = None,  # noqa: UP006
    ) -> None:
        options = read_options(options_file)
        _check_supported(options, options_file)
        self._build(read_frozen_bilm(options, weight_file), requires_grad, vocab_to_cache or [])

    @classmethod
    def of(cls, bilm: FrozenBiLm) -> "ElmoBiLm":
        _check_supported(bilm.options, "the biLM")
        copied = cls.__new__(cls)
        copied._build(bilm, requires_grad=False, vocab_to_cache=[])
        return copied

    def _build(self, bilm: FrozenBiLm, requires_grad: bool, vocab_to_cache: list[str]) -> None:
        nn.Module.__init__(self)
        self.options, self.precision = bilm.options, bilm.precision
        options = bilm.options
        self.num_layers = options.n_layers + 1
        self._requires_grad = requires_grad
        self._word_embedding = self._bos_embedding = self._eos_embedding = None
        weights = _to_allennlps(bilm.weights(), options)
        bos_eos = CharacterEncoder.padded_ids([CharacterEncoder.bos_eos])[0].long()
        # The modules are made without weights, and then take them over.
        with torch.device("meta"):
            self._token_embedder = _character_encoder(options, requires_grad)
            lstm = ElmoLstm(
                options.projection_dim,
                options.projection_dim,
                options.dim,
                options.n_layers,
                requires_grad,
                memory_cell_clip_value=options.cell_clip,
                state_projection_clip_value=options.proj_clip,
            )
        encoder = self._token_embedder
        encoder._beginning_of_sentence_characters, encoder._end_of_sentence_characters = bos_eos
        self._token_embedder.requires_grad_(requires_grad)
        self.load_state_dict(weights, assign=True, strict=False)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)
        self._elmo_lstm = lstm.requires_grad_(requires_grad)
        self.load_state_dict(weights, assign=True, strict=False)
        self._one_at_a_time, self._products, self._frozen_copy = OneAtATime(), Products(), FrozenCopy()
        self._as_made = self._structure()

    def forward(self, inputs: torch.Tensor, word_inputs: torch.Tensor | None = None) -> dict[str, Any]:
        """
        *Shape:* `inputs` `(batch, tokens, 50)`, of AllenNLP's indexer `elmo_characters`. Returns the
        `activations`, a list of `(batch, tokens + 2, dim)`, and `mask`, `(batch, tokens + 2)`, with BOS and
        EOS. Row i continues where row i of the batch before ended, unless `_elmo_lstm.stateful` is
        `False`.
        """
        cached_words = word_inputs is not None and self._word_embedding is not None
        if cached_words or not _are_words(inputs) or self._structure() != self._as_made:
            return super().forward(inputs, word_inputs)
        run = torch.compiler.disable(self._run) if torch.compiler.is_compiling() else self._run
        if not self._elmo_lstm.stateful:
            return run(inputs)
        with self._one_at_a_time:
            return run(inputs)

    def frozen(self) -> FrozenBiLm:
        """Makes a frozen biLM of the current weights, or returns the last one if they are the same."""
        return self._frozen_copy.frozen(self._weights(), self._made_frozen)

    def _run(self, inputs: torch.Tensor) -> dict[str, Any]:
        lstm, embedding = self._elmo_lstm, self._token_embedder._char_embedding_weights
        lengths = (inputs > 0).any(dim=2).sum(dim=1)
        encoder = self._token_embedder
        bos_eos = encoder._beginning_of_sentence_characters, encoder._end_of_sentence_characters
        extended = with_bos_eos(inputs, lengths, torch.stack(bos_eos).to(inputs.device))
        before = None
        if lstm.stateful and lstm._states is not None:
            lstm._states = tuple(state.to(embedding) for state in lstm._states)
            rows = torch.arange(len(inputs), device=inputs.device)
            states = lstm._get_initial_states(len(inputs), len(inputs), rows)
            # (layers, batch, 2 size) to (layers, 2, batch, size)
            before = LstmState(*(part.unflatten(2, (2, -1)).transpose(1, 2) for part in states))
        trained = torch.is_grad_enabled() and any(weight.requires_grad for weight in self._weights())
        if trained:
            self._frozen_copy.forget()
            # A shell for the weights of this call alone, so that threads do not meet in it
            with torch.device("meta"):
                shell = TrainedBiLm(options=self.options)
            shell.products = self._products
            weights = _from_allennlps(dict(self.named_parameters(remove_duplicate=False)), self.options)
            layers, after = functional_call(shell, weights, (extended, before), {"has_bos_eos": True})
        else:
            layers, after = self.frozen()(extended, before, has_bos_eos=True)
        if lstm.stateful:
            lstm._update_states(allennlps_states(after), torch.arange(len(inputs), device=inputs.device))
        return {"activations": list(layers), "mask": (extended > 0).any(dim=2)}

    def _made_frozen(self) -> FrozenBiLm:
        with torch.no_grad():
            named = self.named_parameters(remove_duplicate=False)
            weights = _from_allennlps({name: weight.detach() for name, weight in named}, self.options)
            frozen = FrozenBiLm(options=self.options, precision=self.precision, weights=weights)
            return frozen.to(self._token_embedder._char_embedding_weights)

    def _weights(self) -> Iterator[torch.Tensor]:
        yield from self._token_embedder.parameters()
        yield from self._elmo_lstm.parameters()

    def _structure(self) -> list[dict[str, Any]]:
        return [structure(self._token_embedder), structure(self._elmo_lstm)]


def _are_words(inputs: torch.Tensor) -> bool:
    """Checks that each word begins with an id, and that no word comes after padding."""
    words, begin = (inputs > 0).any(dim=2), inputs[:, :, 0] > 0
    return not ((begin != words).any() | (words[:, 1:] & ~words[:, :-1]).any())


def _check_supported(options: BiLmOptions, where: str) -> None:
    tokens, size = options.tokens, options.projection_dim
    if not isinstance(tokens, CharacterOptions):
        problem = "reads characters, not words"
    elif size in (options.dim, tokens.num_filters):
        problem = (
            f"always has projections, but projection_dim ({size}) is also the size of the LSTMs "
            f"({options.dim}) or of the filters ({tokens.num_filters})"
        )
    elif not options.use_skip_connections:
        problem = "always has use_skip_connections"
    else:
        return
    raise ConfigurationError(f"{where}: AllenNLP's biLM {problem}")


def _character_encoder(options: BiLmOptions, requires_grad: bool) -> _ElmoCharacterEncoder:
    encoder, tokens = _ElmoCharacterEncoder.__new__(_ElmoCharacterEncoder), options.tokens
    assert isinstance(tokens, CharacterOptions)
    nn.Module.__init__(encoder)
    encoder._options, encoder.output_dim = options.to_json(), options.projection_dim
    encoder.requires_grad = requires_grad
    encoder._char_embedding_weights = nn.Parameter(torch.empty(NUM_CHARACTERS, tokens.dim))
    encoder._convolutions = [nn.Conv1d(tokens.dim, count, width) for width, count in tokens.filters]
    for i, convolution in enumerate(encoder._convolutions):
        encoder.add_module(f"char_conv_{i}", convolution)
    encoder._highways = Highway(tokens.num_filters, tokens.n_highway, activation=torch.relu)
    encoder._projection = nn.Linear(tokens.num_filters, options.projection_dim)
    return encoder


def allennlps_states(state: LstmState) -> tuple[torch.Tensor, ...]:
    """*Shape:* a state `(layers, 2, batch, size)` to AllenNLP's `(layers, batch, 2 size)`."""
    return tuple(part.transpose(1, 2).flatten(2) for part in state)


def _to_allennlps(weights: dict[str, torch.Tensor], options: BiLmOptions) -> StateDict:
    """Converts the weights of a `BiLm` to copies for an `_ElmoBiLm`, and empties `weights`."""
    converted = {}
    for name, parts in _layout(options):
        if name.endswith(".highway"):
            transform, carry = map(weights.pop, _gates(name))
            # AllenNLP's gate weighs the input; ours weighs the transformed input.
            converted[parts[0]] = torch.cat([transform, -carry])
        else:
            chunks = weights.pop(name).chunk(len(parts), dim=-1)
            converted |= {part: chunk.clone() for part, chunk in zip(parts, chunks, strict=True)}
    return converted


def _from_allennlps(weights: StateDict, options: BiLmOptions) -> StateDict:
    """The inverse of `_to_allennlps`, with gradients; it copies where it must."""
    converted: StateDict = {}
    for name, parts in _layout(options):
        if name.endswith(".highway"):
            transform, carry = weights[parts[0]].chunk(2)
            converted |= zip(_gates(name), (transform, -carry), strict=True)
        else:
            converted[name] = (
                torch.cat([weights[part] for part in parts], dim=-1) if parts[1:] else weights[parts[0]]
            )
    return converted


def _gates(name: str) -> tuple[str, str]:
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


class Elmo(AllenNlpElmo):
    """
    `allennlp.modules.elmo.Elmo` with the same parameters, names and results, faster.

    As there, row i of a batch continues where row i of the batch before ended, unless `stateful` is switched
    off, here or of `_elmo_lstm._elmo_lstm`.

    # Parameters

    options_file, weight_file : path or URL of the official `options.json` and HDF5 weights, of a biLM that
        reads characters; see `ElmoBiLm`.
    module : run in place of a biLM from files, by its own code.
    The others : see AllenNLP's class.
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

    def reset_states(self) -> None:
        """Lets the next batch start a new text. AllenNLP calls this on all modules that are `stateful`."""
        if isinstance(self._elmo_lstm, ElmoBiLm):
            self._elmo_lstm._elmo_lstm.reset_states()

    def forward(self, inputs: torch.Tensor, word_inputs: torch.Tensor | None = None) -> dict[str, Any]:
        if not self.stateful and isinstance(self._elmo_lstm, ElmoBiLm):
            self._elmo_lstm._elmo_lstm.stateful = False
        return super().forward(inputs, word_inputs)
