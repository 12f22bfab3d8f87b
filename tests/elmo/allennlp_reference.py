"""AllenNLP's biLM, the reference for ours."""

from pathlib import Path

import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_tasks.elmo import BiLm


def allennlp_layers(bilm: _ElmoBiLm, sentences: list[list[str]]) -> list[torch.Tensor]:
    """*Shape:* of each layer `(sentences, longest, 2 projection_dim)`, without the borders."""
    outputs = bilm(batch_to_ids(sentences))
    return [remove_sentence_boundaries(layer, outputs["mask"])[0] for layer in outputs["activations"]]


def assert_gradients_equal_allennlps(
    ours: BiLm, layers: torch.Tensor, files: tuple[Path, Path], sentences: list[list[str]]
) -> None:
    """Compares the gradients of all weights for the `layers` of `sentences`, in double precision."""
    theirs = _ElmoBiLm(*map(str, files), requires_grad=True).double()
    torch.manual_seed(0)
    weights = torch.randn(layers.shape, dtype=torch.double)
    (layers * weights).sum().backward()
    for layer, weight in zip(allennlp_layers(theirs, sentences), weights, strict=True):
        (layer * weight).sum().backward(retain_graph=True)
    expected = allennlp_gradients(theirs)
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, expected.pop(name), atol=1e-9, rtol=1e-9)
    assert not expected


def allennlp_gradients(theirs: _ElmoBiLm) -> dict[str, torch.Tensor]:
    """Returns the gradients by our names. AllenNLP's highway gate weighs the input, ours the other part."""
    characters, found = theirs._token_embedder, {}
    found["embedding"] = characters._char_embedding_weights.grad
    for i, cnn in enumerate(characters._convolutions):
        found[f"convolutions.{i}.weight"], found[f"convolutions.{i}.bias"] = cnn.weight.grad, cnn.bias.grad
    for i, highway in enumerate(characters._highways._layers):
        for kind in ("weight", "bias"):
            transform, gate = getattr(highway, kind).grad.chunk(2)
            found[f"highways.{i}.transform.{kind}"], found[f"highways.{i}.carry.{kind}"] = transform, -gate
    for kind in ("weight", "bias"):
        found[f"projection.{kind}"] = getattr(characters._projection, kind).grad
    found = {f"token_encoder.{name}": gradient for name, gradient in found.items()}
    for direction, stack in enumerate(("forward", "backward")):
        for layer in range(2):
            cell, ours = (
                getattr(theirs._elmo_lstm, f"{stack}_layer_{layer}"),
                f"lstm.directions.{direction}.{layer}",
            )
            halves = cell.input_linearity.weight.grad, cell.state_linearity.weight.grad
            found[f"{ours}.weight"] = torch.cat(halves, dim=1)
            found[f"{ours}.bias"] = cell.state_linearity.bias.grad
            found[f"{ours}.projection"] = cell.state_projection.weight.grad
    return found
