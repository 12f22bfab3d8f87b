"""The biLMs whose training `bilm_speed` measures, ours and its peers, and the text that both sides read."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.modules.elmo_lstm import ElmoLstm
from allennlp.modules.sampled_softmax_loss import SampledSoftmaxLoss
from allennlp.modules.seq2vec_encoders import CnnHighwayEncoder
from allennlp.modules.token_embedders import Embedding, TokenCharactersEncoder
from allennlp.nn.util import move_to_device
from torch import nn

from elmo_tasks.data.input_files import read_lines
from elmo_tasks.elmo import BiLmOptions, CharacterOptions
from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE, NUM_CHARACTERS, character_ids
from elmo_tasks.language_model import BiLmModel
from elmo_tasks.language_model.bptt_batch import NAMESPACE, blocks
from elmo_tasks.language_model.softmax import SampledSoftmax

STEPS = 20
DROPOUT = 0.1

Batch = dict[str, Any]
Optimizer = Callable[[list[tuple[str, nn.Parameter]]], torch.optim.Optimizer]


@dataclass(frozen=True, kw_only=True)
class Network:
    """What is trained, and on how much text at once."""

    options: BiLmOptions
    classes: int
    samples: int
    """Of the classes, for the softmax."""
    streams: int

    @property
    def tokens(self) -> int:
        """Of a batch."""
        return self.streams * STEPS


def our_model(network: Network, vocabulary: Vocabulary, precision: str = "float32") -> BiLmModel:
    settings = {
        "precision": precision,
        "options": network.options.to_json(),
        "softmax": {"type": "sampled", "num_samples": network.samples},
        "dropout": DROPOUT,
    }
    return BiLmModel.from_params(Params(settings), vocab=vocabulary)


class AllenNLP(nn.Module):
    """
    The biLM of characters from AllenNLP's classes, those of its `Elmo` and its `LanguageModel`.

    It is given the targets instead of `LanguageModel`'s whole sentences, whose first and last words have
    only one; and the rows of both directions share a sample, which is drawn in Python.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        options = network.options
        assert isinstance(options.tokens, CharacterOptions)
        self.tokens = TokenCharactersEncoder(
            Embedding(num_embeddings=NUM_CHARACTERS, embedding_dim=options.tokens.dim),
            CnnHighwayEncoder(
                embedding_dim=options.tokens.dim,
                filters=options.tokens.filters,
                num_highway=options.tokens.n_highway,
                projection_dim=options.projection_dim,
                activation=options.tokens.activation,
            ),
            dropout=DROPOUT,
        )
        self.lstm = ElmoLstm(
            input_size=options.projection_dim,
            hidden_size=options.projection_dim,
            cell_size=options.dim,
            num_layers=options.n_layers,
            requires_grad=True,
            memory_cell_clip_value=options.cell_clip,
            state_projection_clip_value=options.proj_clip,
        )
        self.dropout = nn.Dropout(DROPOUT)
        self.softmax = SampledSoftmaxLoss(network.classes, options.projection_dim, network.samples)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        """*Shape:* `inputs` `(streams, steps, 50)`, `targets` `(2, streams, steps)`."""
        mask = torch.ones(inputs.shape[:2], dtype=torch.bool)
        # (streams, steps, 2 projection_dim)
        top = self.dropout(self.lstm(self.tokens(inputs), mask)[-1])
        # (2 streams steps, projection_dim)
        rows = torch.cat(top.chunk(2, dim=-1)).flatten(0, 1)
        return {"loss": self.softmax(rows, targets.flatten()) / targets.numel()}


class TorchLstm(nn.Module):
    """The biLM of words with `torch.nn.LSTM`, and our softmax."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        size, layers = network.options.projection_dim, network.options.n_layers
        self.embedding = nn.Embedding(network.classes, size)
        self.dropout = nn.Dropout(DROPOUT)
        self.directions = nn.ModuleList(
            nn.LSTM(size, size, num_layers=layers, dropout=DROPOUT, batch_first=True) for _ in range(2)
        )
        self.softmax = SampledSoftmax(num_classes=network.classes, dim=size, num_samples=network.samples)
        self.states: list[tuple[torch.Tensor, torch.Tensor] | None] = [None, None]

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        """*Shape:* `inputs` `(streams, steps)`, `targets` `(2, streams, steps)`."""
        # (streams, steps, size)
        vectors = self.dropout(self.embedding(inputs))
        outputs = []
        for direction, (lstm, read) in enumerate(
            zip(self.directions, (vectors, vectors.flip(1)), strict=True)
        ):
            output, (hidden, cell) = lstm(read, self.states[direction])
            self.states[direction] = hidden.detach(), cell.detach()
            outputs.append(output)
        # (2 streams steps, size), (2 streams steps,)
        rows = self.dropout(torch.cat(outputs)).flatten(0, 1)
        classes = torch.cat([targets[0], targets[1].flip(1)]).flatten()
        return {"loss": self.softmax.loss(rows, classes) / len(classes)}


class Side:
    """A model with its optimizer, its batches, and the losses of those that it was trained on."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        batches: list[Batch],
        device: str = "cpu",
        bf16: bool = False,
    ) -> None:
        self.model = model.to(device).train()
        self.optimizer = optimizer(list(model.named_parameters()))
        self.batches = move_to_device(batches, torch.device(device))
        self.device, self.bf16 = device, bf16
        self.losses: list[torch.Tensor] = []

    def step(self, batch: Batch) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            loss = self.model(**batch)["loss"]
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())

    def learned(self) -> str:
        return f"loss {self.losses[0]:.2f} to {self.losses[-1]:.2f}"


class Text:
    """
    The text that a network is trained on: `number` batches of it, and the classes.

    `counts` has the words of the whole file, and the borders of each sentence.
    """

    def __init__(self, path: Path, counts: Counter[str], network: Network, number: int) -> None:
        self.number = number
        self.reads_characters = isinstance(network.options.tokens, CharacterOptions)
        made_up = {f"<made up {place}>": 1 for place in range(len(counts), network.classes)}
        self.vocabulary = Vocabulary(
            {NAMESPACE: {**counts, **made_up}},
            max_vocab_size={NAMESPACE: network.classes - 1},
        )
        remaining = itertools.chain.from_iterable(map(sentences, itertools.repeat(path)))
        self.streams: list[list[list[str]]] = []
        """Sentences: of each stream as many as fill all batches, and a target on either side."""
        for _ in range(network.streams):
            stream: list[list[str]] = []
            steps = 0
            while steps < number * STEPS + 2:
                stream.append(next(remaining))
                steps += len(stream[-1]) + 1
            self.streams.append(stream)

    def our_batches(self) -> list[Batch]:
        read = "characters" if self.reads_characters else "words"
        fields = blocks(self.streams, streams=len(self.streams), bptt_steps=STEPS, process=0, input=read)
        batches = []
        for field in itertools.islice(fields, self.number):
            field.index(self.vocabulary)
            batches.append({"block": field.as_tensor({})})
        return batches

    def their_batches(self) -> list[Batch]:
        """Both directions in one row, with one border between two sentences: as many steps as ours."""
        steps = self.number * STEPS
        bordered = (
            itertools.chain.from_iterable([BEGIN_SENTENCE, *words] for words in stream)
            for stream in self.streams
        )
        rows = [list(itertools.islice(row, steps + 2)) for row in bordered]
        # (streams, steps + 2)
        classes = torch.tensor(
            [[self.vocabulary.get_token_index(word, NAMESPACE) - 1 for word in row] for row in rows]
        )
        # The same, or (streams, steps + 2, 50)
        inputs = classes
        if self.reads_characters:
            inputs = torch.stack([torch.tensor(character_ids(row)).long() for row in rows])
        return [
            {
                "inputs": inputs[:, start + 1 : start + 1 + STEPS],
                "targets": torch.stack([classes[:, at : at + STEPS] for at in (start + 2, start)]),
            }
            for start in range(0, steps, STEPS)
        ]


def sentences(path: Path) -> Iterator[list[str]]:
    return (line.split() for _, line in read_lines(path) if line and not line.isspace())


def count_words(path: Path) -> Counter[str]:
    """Counts the words, and the borders of each sentence."""
    counts: Counter[str] = Counter()
    for words in sentences(path):
        counts.update([BEGIN_SENTENCE, *words, END_SENTENCE])
    return counts
