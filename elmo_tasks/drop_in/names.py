"""The weights of a biLM by the names that AllenNLP's modules give them, and back."""

from collections.abc import Iterator, MutableMapping

import torch

from elmo_tasks.elmo.model import BiLmOptions, CharacterOptions

State = MutableMapping[str, torch.Tensor]
"""A state dict, or a part of one."""


def from_allennlp(state: State, prefix: str, options: BiLmOptions) -> None:
    """
    Puts the weights of AllenNLP's `_ElmoBiLm` under `prefix` into those of a `BiLm`, in place. What a weight
    needs and the state dict lacks is left for the module that loads it to report.
    """
    for name, theirs in _layout(options):
        parts = [state.get(prefix + part) for part in theirs]
        weights = [weight for weight in parts if weight is not None]
        if len(weights) < len(parts):
            continue
        for part in theirs:
            del state[prefix + part]
        if name.endswith(".highway"):
            # AllenNLP's gate says what is carried over, ours what is transformed
            transform, carry = weights[0].chunk(2)
            base, kind = _highway(name)
            state[f"{prefix}{base}.transform.{kind}"] = transform
            state[f"{prefix}{base}.carry.{kind}"] = -carry
        else:
            state[prefix + name] = torch.cat(weights, dim=1) if len(weights) > 1 else weights[0]


def to_allennlp(state: State, prefix: str, options: BiLmOptions) -> None:
    """The inverse of `from_allennlp`."""
    for name, theirs in _layout(options):
        if name.endswith(".highway"):
            base, kind = _highway(name)
            transform = state.pop(f"{prefix}{base}.transform.{kind}")
            state[prefix + theirs[0]] = torch.cat([transform, -state.pop(f"{prefix}{base}.carry.{kind}")])
        else:
            for part, weight in zip(theirs, state.pop(prefix + name).chunk(len(theirs), dim=-1), strict=True):
                state[prefix + part] = weight


def _highway(name: str) -> tuple[str, str]:
    base, kind, _ = name.rsplit(".", 2)
    return base, kind


def _layout(options: BiLmOptions) -> Iterator[tuple[str, list[str]]]:
    """
    Returns for each parameter of a `BiLm` the parameters of `_ElmoBiLm` that it consists of, side by side.
    The two gates of a highway layer, which are one parameter there, are `<layer>.<weight or bias>.highway`.
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
