"""Training of a biLM compared with AllenNLP's classes and `torch.nn.LSTM`."""

import argparse
import itertools
import statistics
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
from allennlp.training.optimizers import AdamOptimizer
from torch import nn

from benchmarks.bilms import FILTERS, PUBLISHED, of_characters, seconds
from benchmarks.results import OURS, Results, add_rates, add_results_argument, show
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.elmo import BiLmOptions, CharacterOptions, WordOptions
from elmo_tasks.elmo.files import DEFAULT_OPTIONS
from elmo_tasks.elmo.inference.training_products import product, trains_in_bfloat16
from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE, NUM_CHARACTERS, character_ids
from elmo_tasks.language_model.bptt_batch import NAMESPACE, blocks
from elmo_tasks.language_model.model import BiLmModel
from elmo_tasks.language_model.softmax import SampledSoftmax
from elmo_tasks.training.optimizers import FusedAdam

STEPS = 20
DROPOUT = 0.1

Batch = dict[str, Any]
Optimizer = Callable[[list[tuple[str, nn.Parameter]]], torch.optim.Optimizer]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network to train, and its batch."""

    options: BiLmOptions
    classes: int
    samples: int
    """Number of sampled classes of the softmax."""
    streams: int

    @property
    def tokens(self) -> int:
        """The tokens of a batch."""
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
    The character biLM made of the classes of AllenNLP's `Elmo` and `LanguageModel`.

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
        made_up = {f"<made up {i}>": 1 for i in range(len(counts), network.classes)}
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


WARM_UP = 3
"""Batches before the first round."""
SMALL = Network(
    options=of_characters(1024, 128, n_highway=1, filters=FILTERS[:-1]),
    classes=30_000,
    samples=4096,
    streams=64,
)
SHIPPED = Network(options=BiLmOptions.read(DEFAULT_OPTIONS), classes=32_000, samples=4096, streams=128)
# Without the bounds and the residual connections, which `torch.nn.LSTM` does not have
WORDS = Network(
    options=BiLmOptions(
        tokens=WordOptions(n_tokens=30_000),
        dim=512,
        projection_dim=512,
        n_layers=2,
        cell_clip=0.0,
        proj_clip=0.0,
        use_skip_connections=False,
    ),
    classes=30_000,
    samples=4096,
    streams=32,
)
ORIGINAL = Network(options=PUBLISHED["original"], classes=793_471, samples=8192, streams=128)
SMALL_TARGET, WORDS_TARGET = 3.5, 1.0
ORIGINAL_TARGET = 100_000
"""Tokens a second."""


def times_in_turn(sides: list[Side], arguments: argparse.Namespace) -> list[list[float]]:
    """Returns the seconds of each round, for each side."""
    times: list[list[float]] = [[] for _ in sides]
    for side in sides:
        seconds(side.step, side.batches[:WARM_UP])
    for start in range(WARM_UP, number_of_batches(arguments), arguments.batches):
        for taken, side in zip(times, sides, strict=True):
            taken.append(seconds(side.step, side.batches[start : start + arguments.batches]))
    return times


def number_of_batches(arguments: argparse.Namespace) -> int:
    return WARM_UP + arguments.rounds * arguments.batches


def compare(
    case: str,
    network: Network,
    peer: type[nn.Module],
    optimizer: Optimizer,
    target: float | None,
    counts: Counter[str],
    arguments: argparse.Namespace,
    results: Results,
) -> None:
    """The speed of the peer and of ours in each precision, the ratios, and what was learned."""
    torch.manual_seed(13)
    text = Text(arguments.text, counts, network, number_of_batches(arguments))
    theirs = Side(peer(network), optimizer, text.their_batches())
    precisions = ("float32", "bfloat16") if trains_in_bfloat16() else ("float32",)
    ours = {
        precision: Side(our_model(network, text.vocabulary, precision), FusedAdam, text.our_batches())
        for precision in precisions
    }
    their_times, *our_times = times_in_turn([theirs, *ours.values()], arguments)
    print(f"{case}, peer {peer.__name__}, batches of {network.tokens:,} tokens; peer: {theirs.learned()}")
    for (precision, side), times in zip(ours.items(), our_times, strict=True):
        performed = sum(operations(network, batch["block"]) for batch in side.batches[WARM_UP:])
        share = performed / sum(times) / product_rate(precision)
        print(f"ours, {precision}: {side.learned()}")
        case_of = f"{case}, {precision}"
        at_least = target if precision == "float32" else None
        add_rates(results, case_of, arguments.batches * network.tokens, times, their_times, at_least)
        results.add(OURS, 0, f"{case_of}, share of the product rate", share)


def product_rate(precision: str, size: int = 1024) -> float:
    """Operations a second of a large product, the best of many."""
    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    inputs, weight = (torch.randn(size, size).to(dtype) for _ in range(2))
    fastest = min(seconds(lambda _: product(inputs, weight), range(4)) for _ in range(20)) / 4
    return 2 * size**3 / fastest


def original_on_gpu(counts: Counter[str], arguments: argparse.Namespace, results: Results) -> None:
    network = ORIGINAL
    text = Text(arguments.text, counts, network, number_of_batches(arguments))
    model = our_model(network, text.vocabulary)
    ours = Side(model, FusedAdam, text.our_batches(), "cuda", arguments.bf16)
    (times,) = times_in_turn([ours], arguments)
    fast = arguments.batches * network.tokens / statistics.median(times)
    case = f"original size, GPU{', bf16' if arguments.bf16 else ''}"
    reached = "reached" if fast >= ORIGINAL_TARGET else "not reached"
    print(f"{case}, batches of {network.tokens:,} tokens: {ours.learned()}")
    print(f"  {fast:,.0f} tokens/s, at least {ORIGINAL_TARGET:,}: {reached}")
    results.add(OURS, 0, f"{case}, tokens/s", fast, sum(times))
    timed = ours.batches[WARM_UP:]
    performed = sum(operations(network, batch["block"]) for batch in timed) / sum(times) / 1e12
    results.add(OURS, 0, f"{case}, products, TFLOP/s", performed, sum(times))
    if arguments.peak_tflops:
        results.add(OURS, 0, f"{case}, share of the peak", performed / arguments.peak_tflops)


def operations(network: Network, block: Batch) -> int:
    """
    Returns the multiplications of a training step: for each forward product, one for the gradient of either
    factor. Without the convolutions, which are few in comparison.
    """
    options = network.options
    size, dim, tokens = options.projection_dim, options.dim, options.tokens
    lstm = options.n_layers * (4 * dim * 2 * size + (dim * size if dim != size else 0))
    softmax = (network.samples + 1) * size
    word = 0
    if isinstance(tokens, CharacterOptions):
        word = tokens.num_filters * (2 * tokens.n_highway * tokens.num_filters + size)
    return 3 * 2 * (block["inputs"].numel() * (lstm + softmax) + len(block["words"]) * word)


class BiLmSpeed:
    """
    The speed of training our biLM: a character biLM compared with AllenNLP's own classes, and a word biLM
    with `torch.nn.LSTM`. One run alternates between the two.

    TEXT has one tokenised sentence a line, plain or gzip. Its commonest words, with made-up ones where it has
    too few, are the classes. Batches are made beforehand: streams of consecutive text, 20 tokens of each at
    once, the state carried from batch to batch, the end of a sentence counted as a token; a text that is too
    short is read again. Both sides read the same sentences. A step is the loss, its gradients, not clipped,
    and Adam: of AllenNLP its own, otherwise the fused one. The ratio is the median of the rounds, with its
    range. The share of the product rate is what ours reaches, with all it does, of the rate of a large
    product in the same precision. With `--cuda`, ours alone trains the original size as well.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("text", type=Path)
        parser.add_argument("--batches", type=int, default=10, help="of a round, for each side")
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--threads", type=int, default=2)
        parser.add_argument("--cuda", action="store_true", help="the original size on a GPU as well")
        parser.add_argument("--bf16", action="store_true", help="autocast on the GPU")
        parser.add_argument("--peak-tflops", type=float, help="of the GPU, in the precision of the products")
        add_results_argument(parser)

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        torch.set_num_threads(arguments.threads)
        results = Results("bilm-speed", arguments.csv)
        counts = count_words(arguments.text)
        for case, network, peer, optimizer, target in (
            ("small, characters", SMALL, AllenNLP, AdamOptimizer, SMALL_TARGET),
            ("shipped, characters", SHIPPED, AllenNLP, AdamOptimizer, None),
            # The two have the same optimizer, so that only the networks differ.
            ("512, words", WORDS, TorchLstm, FusedAdam, WORDS_TARGET),
        ):
            compare(case, network, peer, optimizer, target, counts, arguments, results)
        if arguments.cuda and torch.cuda.is_available():
            original_on_gpu(counts, arguments, results)
        elif arguments.cuda:
            print("No GPU was found; its rows are left out.")
        show(results.ratios(), results.means(of="share of"), results.means(of="GPU"))
