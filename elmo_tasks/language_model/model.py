"""The bidirectional language model of Peters et al. 2018, section 3.1: what a biLM is trained by."""

from typing import Any

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from torch.nn import functional as F

from elmo_tasks.elmo import BiLm, BiLmOptions
from elmo_tasks.elmo.linear import Linear
from elmo_tasks.elmo.lstm import LstmState, PackedSteps
from elmo_tasks.elmo.word_encoder import WordEncoder
from elmo_tasks.language_model.metric import Perplexity
from elmo_tasks.language_model.softmax import Softmax
from elmo_tasks.strict_params import StrictParams

WORDS = "tokens"
"""The namespace of the vocabulary."""


@Model.register("elmo_bilm")
class BiLmModel(StrictParams, Model):
    """
    A forward and a backward LSTM language model that share the token layer and the softmax.

    The state is carried from block to block of a lane, without gradients: truncated back-propagation through
    time. A class is the index of a word in the vocabulary less one, since the padding is none.

    # Parameters

    vocab : the words that are predicted and, for word input, those that are read; with `<UNK>` for all
        others.
    options : the sizes of a new biLM, in the layout of `options.json`; `n_tokens_vocab` may be left out.
    softmax : `full`, `sampled` or `adaptive`.
    dropout : the probability with which an input of an LSTM layer, or of the softmax, is left out.
    """

    def __init__(
        self,
        *,
        vocab: Vocabulary,
        options: dict[str, Any],
        softmax: Lazy[Softmax],
        dropout: float = 0.0,
    ) -> None:
        super().__init__(vocab)
        if not 0 <= dropout < 1:
            raise ConfigurationError(f"dropout is {dropout}, expected 0 or more, and less than 1")
        words = class_names(vocab)
        if "char_cnn" not in options:
            options = {**options, "n_tokens_vocab": len(words)}
        self.bilm = BiLm(options=BiLmOptions.from_json(options, where="model.options"))
        if isinstance(self.bilm.token_encoder, WordEncoder):
            self.bilm.token_encoder.know(words)
        self.softmax = softmax.construct(num_classes=len(words), dim=self.bilm.options.projection_dim)
        self.dropout = dropout
        self.perplexity = Perplexity()
        # Of each stream of training and of evaluation, where its lanes stand
        self._states: dict[tuple[bool, int], LstmState] = {}

    def forward(self, block: dict[str, Any]) -> dict[str, torch.Tensor]:
        """
        *Shape:* of `block`, see `BlockField`. The loss is the mean over steps and directions, in nats.
        Outside of training also `log_probabilities`, `(1, 2, steps)`: of each target, forward and backward,
        lanes end to end.
        """
        lengths = block["lengths"]
        if not int(lengths.sum()):
            # A worker that has run dry takes part in the update all the same.
            return {"loss": sum(weight.sum() * 0 for weight in self.parameters() if weight.requires_grad)}
        steps = PackedSteps.of(lengths)
        rows, places = steps.rows[0], steps.places[0]
        # Both directions below each other: (2 steps, projection_dim), (2 steps,)
        outputs = torch.cat(self._outputs(block, steps))
        targets = block["targets"][:, rows].flatten()
        if self.training:
            return {"loss": self.softmax.loss(self._dropped(outputs), targets) / len(targets)}
        scores, correct = (part.view(2, -1) for part in self.softmax.exact(outputs, targets))
        self.perplexity(scores, correct)
        return {"loss": -scores.mean(), "log_probabilities": scores[:, places].unsqueeze(0)}

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Of evaluations; in training only the loss is known."""
        return {} if self.training else self.perplexity.get_metric(reset)

    def _outputs(self, block: dict[str, Any], steps: PackedSteps) -> tuple[torch.Tensor, torch.Tensor]:
        """*Shape:* of the last layer, forward and backward, `(steps, projection_dim)`, packed."""
        vectors, index = self.bilm.token_encoder(block["words"], Linear())
        # (2, steps)
        inputs = index[block["inputs"][:, steps.rows[0]]]
        stream = self.training, int(block["stream"])
        layers, state = self.bilm.lstm.train_steps(
            (F.embedding(inputs[0], vectors), F.embedding(inputs[1], vectors)),
            steps,
            self._state(stream, block["fresh"]),
            self.dropout if self.training else 0.0,
        )
        self._states[stream] = LstmState(*(part.detach() for part in state))
        return layers[-1]

    def _state(self, stream: tuple[bool, int], fresh: torch.Tensor) -> LstmState:
        """Where the block before ended, and zeros where a lane begins afresh."""
        before = self._states.get(stream)
        if before is None or bool(fresh.all()):
            return self.bilm.initial_state(len(fresh))
        kept = (~fresh).view(-1, 1)
        return LstmState(*(part * kept for part in before))

    def _dropped(self, vectors: torch.Tensor) -> torch.Tensor:
        return F.dropout(vectors, self.dropout) if self.dropout else vectors

    def get_extra_state(self) -> dict[str, torch.Tensor]:
        """PyTorch's hook for what a checkpoint holds beside weights: where the lanes of training stand."""
        return {
            f"{stream} {name}": part
            for (training, stream), state in self._states.items()
            if training
            for name, part in state._asdict().items()
        }

    def set_extra_state(self, state: dict[str, torch.Tensor]) -> None:
        for stream in {int(key.split()[0]) for key in state}:
            parts = (state[f"{stream} {name}"] for name in LstmState._fields)
            self._states[True, stream] = LstmState(*parts)


def class_names(vocab: Vocabulary) -> list[str]:
    """The word of each class."""
    words = vocab.get_index_to_token_vocabulary(WORDS)
    return [words[index] for index in range(1, len(words))]
