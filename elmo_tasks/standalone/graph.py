"""The models of tasks as graphs that ONNX can hold, from ids to scores."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from allennlp.data import TextFieldTensors
from allennlp.modules import InputVariationalDropout
from allennlp.nn.util import get_text_field_mask
from torch import nn

from elmo_tasks.classification.linear import LinearModel
from elmo_tasks.elmo.embedder import Elmo, SentenceEncoder
from elmo_tasks.elmo.model import BiLm
from elmo_tasks.modules.elmo_model import ElmoModel
from elmo_tasks.modules.layers import BiLstm, pair_features
from elmo_tasks.snli.model import SnliModel
from elmo_tasks.squad.model import SquadModel

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
"""The places of ONNX's gates among PyTorch's."""


class OnnxRecurrent(nn.Module):
    """A `BiLstm` or `BiGru` in evaluation, as ONNX's operators of both directions, a layer each."""

    def __init__(self, layers: BiLstm) -> None:
        super().__init__()
        self.kind = layers.cell.__name__
        self.weights = nn.ParameterList()
        for pair in zip(layers.forward_layers, layers.backward_layers, strict=True):
            for names in (["weight_ih_l0"], ["weight_hh_l0"], ["bias_ih_l0", "bias_hh_l0"]):
                self.weights.append(torch.stack([self._joined(layer, names) for layer in pair]))

    def _joined(self, layer: nn.Module, names: Sequence[str]) -> torch.Tensor:
        parts = [cast(torch.Tensor, getattr(layer, name)).detach() for name in names]
        gates = [part.chunk(len(_GATES[self.kind])) for part in parts]
        return torch.cat([part[gate] for part in gates for gate in _GATES[self.kind]])

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """*Shape:* as `BiLstm`."""
        batch, steps, _ = inputs.shape
        lengths = mask.sum(dim=1).int()
        for layer in range(0, len(self.weights), 3):
            weight, recurrent, bias = self.weights[layer : layer + 3]
            size = recurrent.size(2)
            # (tokens, 2 directions, batch, hidden)
            outputs = torch.onnx.ops.symbolic(
                self.kind,
                (inputs.transpose(0, 1), weight, recurrent, bias, lengths),
                {"direction": "bidirectional", "hidden_size": size}
                | ({"linear_before_reset": 1} if self.kind == "GRU" else {}),
                dtype=inputs.dtype,
                shape=(steps, 2, batch, size),
            )
            inputs = outputs.permute(2, 0, 1, 3).flatten(2)
        return inputs * mask.unsqueeze(2)


def prepare(model: ElmoModel) -> None:
    """Replaces the layers of a model that ONNX cannot hold as they are."""
    for part in list(model.modules()):
        if isinstance(part, Elmo) and part.bilm is not None:
            bilm: Any = BiLm(options=part.bilm.options)
            bilm.load_state_dict(part.bilm.state_dict())
            part.bilm, part.encoder = bilm, SentenceEncoder()
        for name, child in part.named_children():
            if isinstance(child, BiLstm):
                setattr(part, name, OnnxRecurrent(child))
            elif isinstance(child, InputVariationalDropout):
                setattr(part, name, nn.Identity())
    model.requires_grad_(False).eval()


Inputs = dict[str, torch.Tensor]


class Graph(nn.Module):
    """
    The graph of a task's model, from the inputs by `names` to its `outputs`.

    The ids have a row for the text, or for each text of a pair.

    # Parameters

    keys : the name of the tensor of each token indexer.
    """

    outputs: Sequence[str] = ("logits",)

    def __init__(self, model: Any, names: Iterable[str], keys: Mapping[str, str]) -> None:
        super().__init__()
        self.model, self.names, self.keys = model, list(names), keys
        self.pairs = has_pairs(model)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = self.scores(dict(zip(self.names, tensors, strict=True)))
        return tuple(scores[name] for name in self.outputs)

    def scores(self, inputs: Inputs) -> Inputs:
        outputs: Inputs = self.model.scores(*self.texts(inputs))
        return outputs

    def texts(self, inputs: Inputs) -> list[TextFieldTensors]:
        if not self.pairs:
            return [self.text(inputs)]
        return [self.text({name: inputs[name][row : row + 1] for name in self.keys}) for row in range(2)]

    def text(self, ids: Inputs) -> TextFieldTensors:
        return {name: {key: ids[name]} for name, key in self.keys.items()}


def has_pairs(model: Any) -> bool:
    return isinstance(model, SnliModel) or getattr(model, "pairs", False)


class NerGraph(Graph):
    outputs = ("emissions",)


class SstGraph(Graph):
    outputs = ("logits", "attention")


class SnliGraph(Graph):
    outputs = ("logits", "premise_to_hypothesis", "hypothesis_to_premise")


class LinearGraph(Graph):
    """The graph of texts or pairs, with the rows of their static words, and columns and values of n-grams."""

    static: torch.Tensor

    def __init__(self, model: LinearModel, *arguments: Any) -> None:
        super().__init__(model, *arguments)
        static = model.static_vectors
        vectors = static.scales.unsqueeze(1) * static.vectors
        # (1 + words, dim): the first row is that of all other words
        self.register_buffer("static", torch.cat([vectors.new_zeros(1, static.dim), vectors]))

    def scores(self, inputs: Inputs) -> Inputs:
        model: LinearModel = self.model
        parts = [model.vectors(*self.texts(inputs))]
        if "static" in inputs:
            lengths = get_text_field_mask(self.text(inputs)).sum(dim=1, keepdim=True)
            means = self.static[inputs["static"]].sum(dim=1) / lengths
            parts.append(pair_features(*means.chunk(2)) if self.pairs else means)
        logits = model.output(torch.cat(parts, dim=1))
        if "ngrams" in inputs:
            weights = model.ngrams.weight[inputs["ngrams"]]
            logits = logits + (weights * inputs["ngram_values"].unsqueeze(1)).sum(dim=0)
        return {"logits": logits}


class SquadGraph(Graph):
    """The graph of one question, with the windows of its passage."""

    def __init__(self, model: SquadModel, *arguments: Any) -> None:
        super().__init__(model, *arguments)
        self.outputs = ("start", "end", "evidence", *(["no_answer"] if model.no_answer else []))

    def scores(self, inputs: Inputs) -> Inputs:
        passage, question = (
            self.text({name: inputs[prefix + name] for name in self.keys})
            for prefix in ("passage_", "question_")
        )
        windows = GraphWindows(inputs["windows"], inputs["places"])
        first = torch.zeros(1, dtype=torch.long)
        return self.model.scores_in_windows(*self.model.encode(passage), question, windows, first)


class GraphWindows:
    """`Windows` of one passage, by the tokens of each, -1 after the end, and the place of each token."""

    def __init__(self, tokens: torch.Tensor, places: torch.Tensor) -> None:
        self.tokens, self.places, self.count = tokens, places, tokens.shape[0]

    def split(self, values: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(1, tokens, ...)` to `(1, windows, size, ...)`."""
        inside = self.tokens >= 0
        split = values[0][self.tokens.clamp(min=0)]
        return (split * inside.view(*inside.shape, *[1] * (split.dim() - 2)).to(split)).unsqueeze(0)

    def join(self, values: torch.Tensor, passages: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(1, windows, size, ...)` to `(1, tokens, ...)`."""
        return values.flatten(1, 2)[:, self.places]
