"""The encoder compared with AllenNLP's `Elmo`."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from allennlp.modules.elmo import Elmo as AllenNLPElmo
from allennlp.modules.elmo import batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from benchmarks.bilms import (
    SIZES,
    Files,
    Sentences,
    bilm_files,
    count_tokens,
    in_batches,
    peak_memory,
    read_text,
    seconds,
    size_of_text,
)
from benchmarks.results import OURS, Results, add_rates, add_results_argument, show
from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.files import Precision
from elmo_tasks.elmo.model.characters import PADDING_ID
from elmo_tasks.elmo.model.encoders import CharacterEncoder
from elmo_tasks.elmo.token_embedder import ElmoCharacterIndexer

BATCH = 64


class Ours:
    """`Elmo` of this project, frozen."""

    def __init__(self, files: Files, precision: Precision = "float32", device: str = "cpu") -> None:
        options_file, weight_file = files
        self.elmo = Elmo(options_file=options_file, weight_file=weight_file, precision=precision)
        self.elmo.to(device).eval()

    def ids(self, sentences: Sentences) -> torch.Tensor:
        return CharacterEncoder.padded_ids(sentences)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.elmo(ids).input

    def layers(self, ids: torch.Tensor) -> torch.Tensor:
        return self.bilm.encode(ids)

    def clear_word_cache(self) -> None:
        self.bilm.clear_word_cache()

    @property
    def bilm(self) -> Any:
        return self.elmo.bilm


class Theirs:
    """AllenNLP's `Elmo`. It carries its state from batch to batch, which costs it next to nothing."""

    def __init__(self, files: Files, device: str = "cpu") -> None:
        self.elmo = AllenNLPElmo(*files, num_output_representations=1, dropout=0.0).to(device).eval()

    def ids(self, sentences: Sentences) -> torch.Tensor:
        return batch_to_ids(sentences)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.elmo(ids)["elmo_representations"][0]

    def layers(self, ids: torch.Tensor) -> torch.Tensor:
        """From a fresh state, as ours."""
        self.elmo._elmo_lstm._elmo_lstm.reset_states()
        outputs = self.elmo._elmo_lstm(ids)
        mask = outputs["mask"]
        return torch.stack([remove_sentence_boundaries(layer, mask)[0] for layer in outputs["activations"]])


@torch.no_grad()
def memory_and_start(side: str, files: Files, sentences: Sentences) -> tuple[float, float]:
    """Peak memory in GB, all imports included; and the seconds from them to a first encoded sentence."""
    began = time.perf_counter()
    encoder = Ours(files) if side == "ours" else Theirs(files)
    encoder.embed(encoder.ids(sentences[:1]))
    start = time.perf_counter() - began
    for batch in in_batches(sentences, BATCH):
        encoder.embed(encoder.ids(batch))
    return peak_memory() / 1e9, start


if __name__ == "__main__":
    side, text, number, threads, *files = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(*memory_and_start(side, (files[0], files[1]), read_text(Path(text), int(number))))


MAX_DIFFERENCE = 2e-5
DIFFERENCE = "largest difference of "

COLD, WARM = f"batches of {BATCH}, cold", f"batches of {BATCH}, warm"
COLD_SINGLE, WARM_SINGLE = "single sentences, cold", "single sentences, warm"
LSTM = "LSTM part, beside the GEMM rate, GFLOP/s"
CNN = "character CNN, beside the GEMM rate, GFLOP/s"
READ = "single sentences, warm, beside the sum of a tensor, GB/s"
TARGETS = {
    COLD: {"small": 14.0, "original": 6.5},
    WARM: {"small": 21.0, "original": 7.0},
    COLD_SINGLE: {"small": 4.0},
    WARM_SINGLE: {"small": 5.5},
    LSTM: {"small": 0.6, "original": 0.75},
    READ: {"original": 0.8},
}
MEMORY_TARGETS = {"small": 0.34, "original": 0.55}
INDEXING_TARGET = 10.0


def largest_differences(
    theirs: Theirs, ours: dict[str, Ours], batches: list[Any], limit: float
) -> tuple[int, dict[tuple[str, bool], float]]:
    """
    Over all layers, for each precision without and with known words; and how many batches were read
    until `limit` seconds of theirs were spent.
    """
    differences: dict[tuple[str, bool], list[float]] = defaultdict(list)
    spent, read = 0.0, 0
    for encoder in ours.values():
        encoder.clear_word_cache()
    for their_ids, our_ids in batches:
        start = time.perf_counter()
        expected = theirs.layers(their_ids)
        spent, read = spent + time.perf_counter() - start, read + 1
        for precision, encoder in ours.items():
            for warm in (False, True):
                difference = (encoder.layers(our_ids) - expected).abs().max()
                differences[precision, warm].append(difference.item())
        if spent > limit:
            break
    # Of tensors: Python's `max` may pass over a NaN.
    return read, {key: torch.tensor(values).max().item() for key, values in differences.items()}


class Speed:
    """The measurements of one size, and where they go."""

    def __init__(self, size: str, arguments: argparse.Namespace, results: Results) -> None:
        self.size, self.arguments, self.results = size, arguments, results
        self.where = ""

    def compare(
        self,
        cases: tuple[str, str],
        theirs: Theirs,
        ours: dict[str, Ours],
        batches: list[Sentences],
        device: str,
    ) -> list[Sentences]:
        """Each precision in each of `cases` (cold, warm); the batches that were read."""
        arguments = self.arguments
        some_ours = next(iter(ours.values()))
        ids = [(theirs.ids(batch).to(device), some_ours.ids(batch).to(device)) for batch in batches]
        read, differences = largest_differences(theirs, ours, ids, arguments.budget / (arguments.rounds + 1))
        their_ids, our_ids = zip(*ids[:read], strict=True)
        their_times: list[float] = []
        our_times: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for _ in range(arguments.rounds):
            their_times.append(seconds(theirs.embed, their_ids))
            for precision, encoder in ours.items():
                encoder.clear_word_cache()
                for warm in (False, True):
                    our_times[precision, warm].append(seconds(encoder.embed, our_ids))
        tokens = count_tokens(batches[:read])
        print(f"{sum(map(len, batches[:read])):,} sentences, {tokens:,} tokens")
        for (precision, warm), times in our_times.items():
            case = self.where + cases[warm] + ("" if precision == "float32" else f", {precision}")
            at_least = TARGETS.get(case, {}).get(self.size)
            add_rates(self.results, f"{self.size}: {case}", tokens, times, their_times, at_least)
            self.results.add(OURS, 0, f"{DIFFERENCE}{self.size}: {case}", differences[precision, warm])
            if precision != "float32":
                rates = ([tokens / each for each in our_times[kind, warm]] for kind in (precision, "float32"))
                self.results.add_in_turn(f"{self.size}: {case}, beside float32, tokens/s", *rates)
        return batches[:read]

    def part(
        self,
        case: str,
        work: float,
        run: Callable[[Any], Any],
        batches: list[Any],
        possible: Callable[[], float],
    ) -> None:
        """Adds the rate at which `run` does `work`, and the possible one, measured alternately, in 1e9/s."""
        seconds(run, batches)
        reached, rates, times = [], [], []
        for _ in range(self.arguments.rounds):
            rates.append(possible() / 1e9)
            times.append(seconds(run, batches))
            reached.append(work / times[-1] / 1e9)
        case = self.where + case
        at_least = TARGETS.get(case, {}).get(self.size)
        self.results.add_in_turn(f"{self.size}: {case}", reached, rates, seconds=times, at_least=at_least)

    def lstm_share(self, ours: Ours, batches: list[Sentences], device: str) -> None:
        """Measures the share of the rate at which the recurrent product alone runs, in the same precision."""
        bilm, options = ours.bilm, ours.bilm.options
        dim, projection = options.dim, options.projection_dim
        inputs = []
        for batch in batches:
            lengths = torch.tensor([len(words) for words in batch])
            inputs.append((torch.randn(int(lengths.sum()), projection, device=device), lengths.to(device)))
        operations = count_tokens(batches) * 2 * weights_of_lstm(options, inputs=2)
        dtype = getattr(torch, bilm.precision)
        self.part(
            LSTM if dtype == torch.float32 else f"{LSTM}, {bilm.precision}",
            operations,
            partial(run_lstm, bilm),
            inputs,
            partial(gemm_rate, BATCH, projection, 4 * dim, device, dtype),
        )

    def cnn_share(self, ours: Ours, batches: list[Sentences], device: str) -> None:
        """Returns the share of the rate at which a gate of the highway layers alone runs."""
        encoder, options = ours.bilm.prepare().token_layer, ours.bilm.options
        words = [torch.cat([ours.ids([sentence])[0] for sentence in batch]) for batch in batches]
        distinct = [ids.unique(dim=0).to(device) for ids in words]
        operations = sum(operations_of_cnn(options, ids) for ids in distinct)
        size = options.tokens.num_filters
        self.part(CNN, operations, encoder._cnn, distinct, partial(gemm_rate, 512, size, size, device))

    def read_share(self, ours: Ours, singles: list[Sentences], device: str) -> None:
        """
        Returns the share of the memory's read bandwidth: each step of a single sentence reads the recurrent
        weights and the projections of all layers in both directions.
        """
        bytes_read = count_tokens(singles) * 4 * weights_of_lstm(ours.bilm.options, inputs=1)
        ids = [ours.ids(batch).to(device) for batch in singles]
        self.part(READ, bytes_read, ours.layers, ids, partial(read_rate, device))

    def measure(self, files: Files, sentences: Sentences, device: str) -> None:
        """All cases of one size on a device; memory and start on a processor alone."""
        arguments = self.arguments
        theirs = Theirs(files, device)
        ours = {precision: Ours(files, precision, device) for precision in ("float32", *arguments.precision)}
        self.where = "" if device == "cpu" else "GPU, "
        batches = self.compare((COLD, WARM), theirs, ours, in_batches(sentences, BATCH), device)
        for encoder in ours.values():
            self.lstm_share(encoder, batches, device)
        self.cnn_share(ours["float32"], batches, device)
        singles = in_batches(sentences[: arguments.singles], 1)
        singles = self.compare((COLD_SINGLE, WARM_SINGLE), theirs, ours, singles, device)
        self.read_share(ours["float32"], singles, device)
        if device == "cpu":
            self.memory_and_start(files, sum(map(len, batches)))

    def memory_and_start(self, files: Files, number: int) -> None:
        """In a process of each side that loads the model, encodes one sentence, and then the same batches."""
        arguments = self.arguments
        figures = []
        for side in ("ours", "theirs"):
            command = [sys.executable, "-m", "benchmarks.elmo_speed", side, str(arguments.text), str(number)]
            command += [str(arguments.threads), *files]
            finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures.append(tuple(map(float, finished.stdout.split())))
        peaks, starts = ([[value] for value in values] for values in zip(*figures, strict=True))
        at_most = MEMORY_TARGETS.get(self.size)
        self.results.add_in_turn(f"{self.size}: peak memory, GB", *peaks, at_most=at_most)
        self.results.add_in_turn(f"{self.size}: to make it and encode a first sentence, s", *starts)


def weights_of_lstm(options: Any, *, inputs: int) -> int:
    """Numbers of all layers in both directions; of a layer's two inputs, the recurrent one or both."""
    dim, projection = options.dim, options.projection_dim
    return options.n_layers * 2 * (4 * dim * inputs * projection + dim * projection)


def operations_of_cnn(options: Any, words: torch.Tensor) -> int:
    """
    Operations for distinct words `(words, 50)`: of each filter at each character and once after the last, of
    the highway layers, and of the projection.
    """
    tokens = options.tokens
    windows = int(((words != PADDING_ID).sum(dim=1) + 1).clamp(max=words.size(1)).sum())
    of_window = sum(width * number * tokens.dim for width, number in tokens.filters)
    of_word = tokens.num_filters * (2 * tokens.n_highway * tokens.num_filters + options.projection_dim)
    return 2 * (windows * of_window + len(words) * of_word)


def run_lstm(bilm: Any, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    """The stacked biLSTM alone, as `FrozenBiLm.encode` calls it."""
    # (tokens, projection), (batch,)
    words, lengths = batch
    kernels = bilm.prepare()
    index = torch.arange(len(words), device=words.device)
    kernels._lstm(words, index, lengths, bilm.initial_state(len(lengths)))


def read_rate(device: str, numbers: int = 1 << 26, times: int = 5) -> float:
    """Bytes a second of a sum over more than a cache holds: the best of all times."""
    tensor = torch.ones(numbers, device=device)
    fastest = min(seconds(lambda _: tensor.sum(), range(1)) for _ in range(times))
    return numbers * 4 / fastest


def gemm_rate(
    rows: int,
    inner: int,
    columns: int,
    device: str,
    dtype: torch.dtype = torch.float32,
    repeats: int = 10,
    times: int = 20,
) -> float:
    """Operations a second of a product: the best of PyTorch's BLAS and oneDNN, and of all repeats."""
    like: dict[str, Any] = {"device": device, "dtype": dtype}
    inputs, weight = torch.randn(rows, inner, **like), torch.randn(columns, inner, **like)
    transposed, output = weight.t(), torch.empty(rows, columns, **like)
    products: list[Callable[[Any], Any]] = [lambda _: torch.mm(inputs, transposed, out=output)]
    if device == "cpu" and torch.backends.mkldnn.is_available():
        mkldnn = torch.ops.mkldnn
        packed = mkldnn._reorder_linear_weight(weight, rows)
        products.append(lambda _: mkldnn._linear_pointwise(inputs, packed, None, "none", [], ""))
    fastest = min(seconds(product, range(times)) for _ in range(repeats) for product in products)
    return 2 * rows * inner * columns * times / fastest


def indexing(sentences: Sentences, rounds: int, results: Results) -> None:
    """Tokens to tensors, several times over the text; ours knows the text's words from the second time on."""
    vocabulary = Vocabulary()
    batches = in_batches(sentences, BATCH)
    text = [[[Token(word) for word in words] for words in batch] for batch in batches]

    def through_batch(indexer: Any, batch: list[list[Token]]) -> torch.Tensor:
        instances = [Instance({"text": TextField(tokens, {"elmo": indexer})}) for tokens in batch]
        whole = Batch(instances)
        whole.index_instances(vocabulary)
        (ids,) = whole.as_tensor_dict()["text"]["elmo"].values()
        return ids

    def alone(indexer: Any, batch: list[list[Token]]) -> None:
        longest = dict.fromkeys(indexer.get_empty_token_list(), max(map(len, batch)))
        for tokens in batch:
            indexer.as_padded_tensor_dict(indexer.tokens_to_indices(tokens, vocabulary), longest)

    ours, theirs = ElmoCharacterIndexer(), ELMoTokenCharactersIndexer()
    times: dict[tuple[Any, str], list[float]] = defaultdict(list)
    for _ in range(rounds + 1):
        for work in (through_batch, alone):
            times[work, "theirs"].append(seconds(partial(work, theirs), text))
            times[work, "ours"].append(seconds(partial(work, ours), text))
    tokens = count_tokens(batches)
    for case, work, part in (
        ("indexing and batching, first epoch", through_batch, slice(1)),
        ("indexing and batching, later epochs", through_batch, slice(1, None)),
        ("the indexers' own part, later epochs", alone, slice(1, None)),
    ):
        our_times, their_times = times[work, "ours"][part], times[work, "theirs"][part]
        add_rates(results, case, tokens, our_times, their_times, INDEXING_TARGET)
    difference = max(
        (through_batch(ours, batch).long() - through_batch(theirs, batch)).abs().max().item()
        for batch in text
    )
    results.add(OURS, 0, f"{DIFFERENCE}indexing and batching", difference)


class ElmoSpeed:
    """
    The speed and memory of our ELMo compared with AllenNLP's own `Elmo` and indexer, in one run that
    alternates between the two.

    TEXT has one tokenised sentence a line, plain or gzip; its sentences are taken in the order of the file.
    The published sizes get random weights. Both sides do the whole of a frozen `Elmo`, one mix included,
    without gradients. A round is one pass of each side over the same batches; the ratio is the median of the
    rounds, with its range. Before them all layers of both sides are compared, which also decides how far into
    the text `--budget` reaches. Cold is a pass that starts without known words, warm one over text that was
    just read.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("text", type=Path)
        parser.add_argument("-n", type=int, default=640, help="sentences")
        parser.add_argument("--singles", type=int, default=100, help="sentences that are read one by one")
        parser.add_argument("--sizes", nargs="+", default=["small", "original"], choices=SIZES)
        parser.add_argument("--precision", nargs="*", default=[], choices=["bfloat16"])
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--threads", type=int, default=2)
        parser.add_argument(
            "--budget", type=float, default=160, help="seconds that AllenNLP may take for a case, all rounds"
        )
        parser.add_argument(
            "--cuda", action="store_true", help="on a GPU, without indexing, memory and start"
        )
        add_results_argument(parser)

    @staticmethod
    @torch.no_grad()
    def run(arguments: argparse.Namespace) -> None:
        torch.set_num_threads(arguments.threads)
        sentences = read_text(arguments.text, arguments.n)
        results = Results("elmo-speed", arguments.csv)
        if arguments.cuda and not torch.cuda.is_available():
            raise ConfigurationError("--cuda needs a GPU")
        # PyTorch's convolutions round to TF32 on a GPU, which would hide how near the two sides are.
        torch.backends.cudnn.allow_tf32 = False
        if not arguments.cuda:
            # First, while ours has seen no word yet
            indexing(sentences, arguments.rounds, results)
        with tempfile.TemporaryDirectory() as name:
            for size in arguments.sizes:
                speed = Speed(size, arguments, results)
                speed.measure(bilm_files(Path(name), size), sentences, "cuda" if arguments.cuda else "cpu")
        differences = results.means(of=DIFFERENCE)
        show(results.ratios(), differences)
        exact = [
            value
            for metric in differences.column("metric")
            if "bfloat16" not in str(metric)
            for value in results.values(OURS, str(metric)).values()
        ]
        largest = torch.tensor(exact).max().item()
        verdict = "reached" if largest <= MAX_DIFFERENCE else "not reached"
        print(f"\nLargest difference in fp32 {largest:.1e}, at most {MAX_DIFFERENCE:g}: {verdict}.")
        print(size_of_text(sentences))
