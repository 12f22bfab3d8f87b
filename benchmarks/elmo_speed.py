"""
The speed and memory of our ELMo beside AllenNLP's own `Elmo` and indexer: one run, the two in turn.

    python benchmarks/elmo_speed.py TEXT [-n 640] [--precision bfloat16] [--cuda]

TEXT has one tokenised sentence a line, plain or gzip; its sentences are taken in the order of the file. The
published sizes get random weights. Both sides do the whole of a frozen `Elmo`, one mix included, without
gradients. A round is one pass of each side over the same batches; the ratio is the median of the rounds,
with its range. Before them all layers of both sides are compared, which also decides how far into the text
`--budget` reaches. Cold is a pass that starts without known words, warm one over text that was just read.
"""

import argparse
import gzip
import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

# The processes that measure memory import one side only, so both are imported where they are used.

Sentences = list[list[str]]
Files = tuple[str, str]
"""Paths of options and weights."""

BATCH = 64
LARGEST_DIFFERENCE = 2e-5

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {"small": (1024, 128, 1), "original": (4096, 512, 2)}
"""Cells, projection and highway layers of the published sizes."""

COLD, WARM = f"batches of {BATCH}, cold", f"batches of {BATCH}, warm"
COLD_SINGLE, WARM_SINGLE = "single sentences, cold", "single sentences, warm"
LSTM, MEMORY = "LSTM part, share of the GEMM rate", "peak memory"
READ = "single sentences, warm, share of the read bandwidth"
FIRST = "seconds to make it and encode a first sentence"
TARGETS = {
    COLD: {"small": 14.0, "original": 6.5},
    WARM: {"small": 21.0, "original": 7.0},
    COLD_SINGLE: {"small": 4.0},
    WARM_SINGLE: {"small": 5.5},
    LSTM: {"small": 0.6, "original": 0.75},
    READ: {"original": 0.8},
    MEMORY: {"small": 0.34, "original": 0.55},
}
INDEXING_TARGET = 10.0


@dataclass(kw_only=True)
class Row:
    """One line of the table."""

    size: str
    case: str
    ours: str
    theirs: str
    ratios: list[float]
    """Of each round."""
    target: float | None = None
    difference: float | None = None
    exact: bool = True
    """Whether the difference is held to its bound."""

    def cells(self) -> list[str]:
        middle = statistics.median(self.ratios)
        ratio = f"{middle:.3g}"
        if len(self.ratios) > 1:
            ratio += f" ({min(self.ratios):.3g} to {max(self.ratios):.3g})"
        target = ""
        if self.target is not None:
            less = self.case == MEMORY
            reached = middle <= self.target if less else middle >= self.target
            target = f"{'at most ' if less else ''}{self.target:g}: {'reached' if reached else 'not reached'}"
        difference = "" if self.difference is None else f"{self.difference:.1e}"
        return [self.size, self.case, self.ours, self.theirs, ratio, target, difference]


class Ours:
    """`Elmo` of this project, frozen."""

    def __init__(self, files: Files, precision: str = "float32", device: str = "cpu") -> None:
        from elmo_tasks.elmo import Elmo

        options_file, weight_file = files
        self.elmo = Elmo(options_file=options_file, weight_file=weight_file, precision=precision)
        self.elmo.to(device).eval()

    def ids(self, sentences: Sentences) -> torch.Tensor:
        from elmo_tasks.elmo.model.characters import padded_character_ids

        return padded_character_ids(sentences)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.elmo(ids).input

    def layers(self, ids: torch.Tensor) -> torch.Tensor:
        return self.bilm.encode(ids)

    def forget_words(self) -> None:
        self.bilm.forget_words()

    @property
    def bilm(self) -> Any:
        return self.elmo.bilm


class Theirs:
    """AllenNLP's `Elmo`. It carries its state from batch to batch, which costs it next to nothing."""

    def __init__(self, files: Files, device: str = "cpu") -> None:
        from allennlp.modules.elmo import Elmo

        self.elmo = Elmo(*files, num_output_representations=1, dropout=0.0).to(device).eval()

    def ids(self, sentences: Sentences) -> torch.Tensor:
        from allennlp.modules.elmo import batch_to_ids

        return batch_to_ids(sentences)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.elmo(ids)["elmo_representations"][0]

    def layers(self, ids: torch.Tensor) -> torch.Tensor:
        """From a fresh state, as ours."""
        from allennlp.nn.util import remove_sentence_boundaries

        self.elmo._elmo_lstm._elmo_lstm.reset_states()
        outputs = self.elmo._elmo_lstm(ids)
        mask = outputs["mask"]
        return torch.stack([remove_sentence_boundaries(layer, mask)[0] for layer in outputs["activations"]])


def count_sentences(batches: Iterable[Sentences]) -> int:
    return sum(map(len, batches))


def read_text(path: Path, number: int) -> Sentences:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return list(itertools.islice(filter(None, map(str.split, file)), number))


def in_batches(sentences: Sentences, size: int) -> list[Sentences]:
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def count_tokens(batches: Iterable[Sentences]) -> int:
    return sum(len(words) for batch in batches for words in batch)


def random_weights(folder: Path, size: str) -> Files:
    """Writes a biLM of a published size, in the official layout, unless it is there."""
    from elmo_tasks.elmo import BiLm, BiLmOptions, CharacterOptions
    from elmo_tasks.elmo.model.weight_file import write_weights

    options_file, weight_file = folder / f"{size}.json", folder / f"{size}.hdf5"
    if not weight_file.exists():
        dim, projection_dim, n_highway = SIZES[size]
        options = BiLmOptions(
            tokens=CharacterOptions(filters=FILTERS, dim=16, activation="relu", n_highway=n_highway),
            dim=dim,
            projection_dim=projection_dim,
            n_layers=2,
            cell_clip=3.0,
            proj_clip=3.0,
            use_skip_connections=True,
        )
        torch.manual_seed(13)
        options_file.write_text(json.dumps(options.to_json()))
        write_weights(weight_file, options, BiLm(options=options).state_dict())
    return str(options_file), str(weight_file)


def shipped_weights() -> Files:
    from elmo_tasks.elmo.sources import DEFAULT_OPTIONS, DEFAULT_WEIGHTS

    return DEFAULT_OPTIONS, DEFAULT_WEIGHTS


def weights(folder: Path, size: str) -> Files:
    """The biLM that comes with the project for `shipped`, else random weights."""
    return shipped_weights() if size == "shipped" else random_weights(folder, size)


def seconds(work: Callable[[Any], Any], batches: Iterable[Any]) -> float:
    start = time.perf_counter()
    for batch in batches:
        work(batch)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def rate(tokens: int, times: list[float]) -> str:
    return f"{tokens / statistics.median(times):,.0f} tokens/s"


def ratios(theirs: list[float], ours: list[float]) -> list[float]:
    return [slow / fast for slow, fast in zip(theirs, ours, strict=True)]


def largest_differences(
    theirs: Theirs, ours: dict[str, Ours], batches: list[Any], limit: float
) -> tuple[int, dict[tuple[str, bool], float]]:
    """
    Over all layers, for each precision without and with known words; and how many batches were read
    until `limit` seconds of theirs were spent.
    """
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    spent, read = 0.0, 0
    for encoder in ours.values():
        encoder.forget_words()
    for their_ids, our_ids in batches:
        start = time.perf_counter()
        expected = theirs.layers(their_ids)
        spent, read = spent + time.perf_counter() - start, read + 1
        for precision, encoder in ours.items():
            for warm in (False, True):
                difference = (encoder.layers(our_ids) - expected).abs().max()
                found[precision, warm].append(difference.item())
        if spent > limit:
            break
    # Of tensors: Python's `max` may pass over a NaN.
    return read, {key: torch.tensor(values).max().item() for key, values in found.items()}


def compare(
    size: str,
    cases: tuple[str, str],
    theirs: Theirs,
    ours: dict[str, Ours],
    batches: list[Sentences],
    arguments: argparse.Namespace,
    device: str = "cpu",
) -> tuple[list[Row], list[Sentences]]:
    """A row for each precision and each of `cases` (cold, warm), and the batches that were read."""
    some_ours = next(iter(ours.values()))
    ids = [(theirs.ids(batch).to(device), some_ours.ids(batch).to(device)) for batch in batches]
    read, differences = largest_differences(theirs, ours, ids, arguments.budget / (arguments.rounds + 1))
    their_ids, our_ids = zip(*ids[:read], strict=True)
    their_times: list[float] = []
    our_times: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for _ in range(arguments.rounds):
        their_times.append(seconds(theirs.embed, their_ids))
        for precision, encoder in ours.items():
            encoder.forget_words()
            for warm in (False, True):
                our_times[precision, warm].append(seconds(encoder.embed, our_ids))
    tokens = count_tokens(batches[:read])
    rows = [
        Row(
            size=size,
            case=cases[warm] + ("" if precision == "float32" else f", {precision}"),
            ours=rate(tokens, times),
            theirs=rate(tokens, their_times),
            ratios=ratios(their_times, times),
            target=TARGETS.get(cases[warm], {}).get(size) if precision == "float32" else None,
            difference=differences[precision, warm],
            exact=precision == "float32",
        )
        for (precision, warm), times in our_times.items()
    ]
    progress(*rows, note=f"{count_sentences(batches[:read]):,} sentences, {tokens:,} tokens")
    return rows, batches[:read]


def run_lstm(bilm: Any, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    """The stacked biLSTM alone, as `FrozenBiLm.encode` calls it."""
    # (tokens, projection), (batch,)
    words, lengths = batch
    kernels = bilm._prepared()
    kernels._run(words, torch.arange(len(words)), lengths, bilm.initial_state(len(lengths)))


def lstm_share(size: str, ours: Ours, batches: list[Sentences], rounds: int) -> Row:
    """Of the rate at which the recurrent product alone can run, measured beside it."""
    bilm, options = ours.bilm, ours.bilm.options
    dim, projection = options.dim, options.projection_dim
    inputs = []
    for batch in batches:
        lengths = torch.tensor([len(words) for words in batch])
        inputs.append((torch.randn(int(lengths.sum()), projection), lengths))
    steps = sum(int(lengths.sum()) for _, lengths in inputs)
    operations = steps * options.n_layers * 2 * 2 * (4 * dim * 2 * projection + dim * projection)
    seconds(partial(run_lstm, bilm), inputs)
    reached, possible = [], []
    for _ in range(rounds):
        possible.append(gemm_rate(BATCH, projection, 4 * dim))
        reached.append(operations / seconds(partial(run_lstm, bilm), inputs))
    row = Row(
        size=size,
        case=LSTM,
        ours=f"{statistics.median(reached) / 1e9:.0f} GFLOP/s",
        theirs=f"{statistics.median(possible) / 1e9:.0f} GFLOP/s (GEMM)",
        ratios=[part / whole for part, whole in zip(reached, possible, strict=True)],
        target=TARGETS[LSTM].get(size),
    )
    progress(row)
    return row


def read_share(size: str, ours: Ours, singles: list[Sentences], rounds: int) -> Row:
    """
    Of the rate at which memory can be read, measured beside it: each step of a lone sentence reads the
    recurrent weights and the projections of all layers in both directions.
    """
    options = ours.bilm.options
    numbers = (
        options.n_layers
        * 2
        * (4 * options.dim * options.projection_dim + options.dim * options.projection_dim)
    )
    ids = [ours.ids(batch) for batch in singles]
    bytes_read = count_tokens(singles) * numbers * 4
    seconds(ours.layers, ids)
    reached, possible = [], []
    for _ in range(rounds):
        possible.append(read_rate())
        reached.append(bytes_read / seconds(ours.layers, ids))
    row = Row(
        size=size,
        case=READ,
        ours=f"{statistics.median(reached) / 1e9:.1f} GB/s",
        theirs=f"{statistics.median(possible) / 1e9:.1f} GB/s (sum of a tensor)",
        ratios=[part / whole for part, whole in zip(reached, possible, strict=True)],
        target=TARGETS[READ].get(size),
    )
    progress(row)
    return row


def read_rate(numbers: int = 1 << 26, times: int = 5) -> float:
    """Bytes a second of a sum over more than a cache holds: the best of all times."""
    tensor = torch.ones(numbers)
    fastest = min(seconds(lambda _: tensor.sum(), range(1)) for _ in range(times))
    return numbers * 4 / fastest


def gemm_rate(rows: int, inner: int, columns: int, repeats: int = 10, times: int = 20) -> float:
    """Operations a second of a product in fp32: the best of PyTorch's BLAS and oneDNN, and of all repeats."""
    inputs, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    transposed, output = weight.t(), torch.empty(rows, columns)
    products: list[Callable[[Any], Any]] = [lambda _: torch.mm(inputs, transposed, out=output)]
    if torch.backends.mkldnn.is_available():
        mkldnn = torch.ops.mkldnn
        packed = mkldnn._reorder_linear_weight(weight, rows)
        products.append(lambda _: mkldnn._linear_pointwise(inputs, packed, None, "none", [], ""))
    fastest = min(seconds(product, range(times)) for _ in range(repeats) for product in products)
    return 2 * rows * inner * columns * times / fastest


def speed(
    size: str, files: Files, sentences: Sentences, arguments: argparse.Namespace
) -> tuple[list[Row], int]:
    """All rows on the CPU but the peak memory, and the number of sentences that the batches had."""
    theirs = Theirs(files)
    ours = {precision: Ours(files, precision) for precision in ("float32", *arguments.precision)}
    batches = in_batches(sentences, BATCH)
    rows, batches = compare(size, (COLD, WARM), theirs, ours, batches, arguments)
    rows.append(lstm_share(size, ours["float32"], batches, arguments.rounds))
    singles = in_batches(sentences[: arguments.singles], 1)
    more, singles = compare(size, (COLD_SINGLE, WARM_SINGLE), theirs, ours, singles, arguments)
    rows += [*more, read_share(size, ours["float32"], singles, arguments.rounds)]
    return rows, count_sentences(batches)


def speed_on_gpu(files: Files, sentences: Sentences, arguments: argparse.Namespace) -> list[Row]:
    theirs = Theirs(files, "cuda")
    precisions = ["float32", "bfloat16"] if torch.cuda.is_bf16_supported() else ["float32"]
    ours = {precision: Ours(files, precision, "cuda") for precision in precisions}
    batches = in_batches(sentences, BATCH)
    cases = f"GPU, {COLD}", f"GPU, {WARM}"
    return compare("original", cases, theirs, ours, batches, arguments, "cuda")[0]


def indexing(sentences: Sentences, rounds: int) -> list[Row]:
    """Tokens to tensors, several times over the text; ours knows the text's words from the second time on."""
    from allennlp.data import Batch, Instance, Token, Vocabulary
    from allennlp.data.fields import TextField
    from allennlp.data.token_indexers import ELMoTokenCharactersIndexer

    from elmo_tasks.elmo import ElmoCharacterIndexer

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
    difference = max(
        (through_batch(ours, batch).long() - through_batch(theirs, batch)).abs().max().item()
        for batch in text
    )
    tokens = count_tokens(batches)
    rows = []
    for case, work, part in (
        ("indexing and batching, first epoch", through_batch, slice(1)),
        ("indexing and batching, later epochs", through_batch, slice(1, None)),
        ("the indexers' own part, later epochs", alone, slice(1, None)),
    ):
        our_times, their_times = times[work, "ours"][part], times[work, "theirs"][part]
        rows.append(
            Row(
                size="",
                case=case,
                ours=rate(tokens, our_times),
                theirs=rate(tokens, their_times),
                ratios=ratios(their_times, our_times),
                target=INDEXING_TARGET,
                difference=difference if work is through_batch else None,
            )
        )
    progress(*rows)
    return rows


def memory_and_start(size: str, files: Files, number: int, arguments: argparse.Namespace) -> list[Row]:
    """In a process of each side that loads the model, encodes one sentence, and then the same batches."""
    peaks, starts = {}, {}
    for side in ("ours", "theirs"):
        command = [sys.executable, __file__, str(arguments.text), "-n", str(number)]
        command += ["--threads", str(arguments.threads), "--memory", side, *files]
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        peaks[side], starts[side] = map(float, finished.stdout.split())
    rows = [
        Row(
            size=size,
            case=MEMORY,
            ours=f"{peaks['ours']:.2f} GB",
            theirs=f"{peaks['theirs']:.2f} GB",
            ratios=[peaks["ours"] / peaks["theirs"]],
            target=TARGETS[MEMORY].get(size),
        ),
        Row(
            size=size,
            case=FIRST,
            ours=f"{starts['ours']:.2f} s",
            theirs=f"{starts['theirs']:.2f} s",
            ratios=[starts["ours"] / starts["theirs"]],
        ),
    ]
    progress(*rows)
    return rows


def peak_memory(side: str, files: Files, sentences: Sentences) -> tuple[float, float]:
    """
    In GB, with all imports; and the seconds until a first sentence is encoded, after the imports. Not by
    `getrusage`: its figure outlives `exec`, and so knows the parent's peak.
    """
    from allennlp.modules.elmo import Elmo  # noqa: F401

    import elmo_tasks  # noqa: F401

    began = time.perf_counter()
    encoder = Ours(files) if side == "ours" else Theirs(files)
    encoder.embed(encoder.ids(sentences[:1]))
    start = time.perf_counter() - began
    for batch in in_batches(sentences, BATCH):
        encoder.embed(encoder.ids(batch))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].removesuffix("kB")) * 1024 / 1e9, start


def machine() -> str:
    """What the numbers were measured on."""
    info = Path("/proc/cpuinfo").read_text()
    found = re.search(r"model name\s*: (.*)", info)
    processor = found[1].strip() if found else platform.machine()
    vectors = "AVX-512" if "avx512f" in info else "no AVX-512"
    cores, threads = len(os.sched_getaffinity(0)), torch.get_num_threads()
    return (
        f"{processor} ({vectors}), {cores} cores, {threads} threads, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}, AllenNLP {version('allennlp')}"
    )


def table(rows: list[Row]) -> str:
    header = ["model", "case", "ours", "AllenNLP", "ratio (rounds)", "target", "largest difference"]
    lines = [header, ["---"] * len(header), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def progress(*rows: Row, note: str = "") -> None:
    """A run takes minutes: each case is shown as it comes, beside the table at the end."""
    for row in rows:
        print(" | ".join(filter(None, [*row.cells(), note])), file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path)
    parser.add_argument("-n", type=int, default=640, help="sentences")
    parser.add_argument("--singles", type=int, default=100, help="sentences that are read one by one")
    parser.add_argument("--sizes", nargs="+", default=["small", "original"], choices=[*SIZES, "shipped"])
    parser.add_argument("--precision", nargs="*", default=[], choices=["bfloat16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--budget", type=float, default=160, help="seconds that AllenNLP may take for a case, all rounds"
    )
    parser.add_argument("--cuda", action="store_true", help="the original size on a GPU as well")
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


@torch.no_grad()
def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    sentences = read_text(arguments.text, arguments.n)
    if arguments.memory:
        side, *files = arguments.memory
        print(*peak_memory(side, tuple(files), sentences))
        return

    # First, while ours has seen no word yet
    rows = indexing(sentences, arguments.rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in arguments.sizes:
            files = weights(folder, size)
            more, number = speed(size, files, sentences, arguments)
            rows += [*more, *memory_and_start(size, files, number, arguments)]
        if arguments.cuda and torch.cuda.is_available():
            rows += speed_on_gpu(random_weights(folder, "original"), sentences, arguments)

    print(table(rows))
    exact = [row.difference for row in rows if row.exact and row.difference is not None]
    largest = torch.tensor(exact).max().item()
    verdict = "reached" if largest <= LARGEST_DIFFERENCE else "not reached"
    print(f"\nLargest difference in fp32 {largest:.1e}, at most {LARGEST_DIFFERENCE:g}: {verdict}.")
    words = [word for sentence in sentences for word in sentence]
    print(f"Text: {len(sentences):,} sentences, {len(words):,} tokens, {len(set(words)):,} distinct.")
    print(f"Machine: {machine()}.")
    if arguments.cuda:
        gpu = (
            torch.cuda.get_device_name() if torch.cuda.is_available() else "none here, its rows are left out"
        )
        print(f"GPU: {gpu}.")


if __name__ == "__main__":
    main()
