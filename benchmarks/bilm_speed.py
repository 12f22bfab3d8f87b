"""
The speed of training our biLM: that of characters beside AllenNLP's own classes, and that of words beside
`torch.nn.LSTM`. One run, the two in turn.

TEXT has one tokenised sentence a line, plain or gzip. Its commonest words, with made-up ones where it has too
few, are the classes. Batches are made beforehand: streams of consecutive text, 20 tokens of each at once, the
state carried from batch to batch, the end of a sentence counted as a token; a text that is too short is read
again. Both sides read the same sentences. A step is the loss, its gradients, not clipped, and Adam: of
AllenNLP its own, otherwise the fused one. The ratio is the median of the rounds, with its range. The share of
the product rate is what ours reaches, with all it does, of the rate of a large product in the same precision.
With `--cuda`, ours alone trains the original size as well.
"""

import argparse
import statistics
from collections import Counter
from pathlib import Path

import torch
from allennlp.training.optimizers import AdamOptimizer
from torch import nn

from benchmarks.bilm_sides import (
    AllenNLP,
    Batch,
    Network,
    Optimizer,
    Side,
    Text,
    TorchLstm,
    count_words,
    our_model,
)
from benchmarks.bilms import FILTERS, PUBLISHED, of_characters, seconds
from benchmarks.results import OURS, Results, add_rates, add_results_argument, show
from elmo_tasks.elmo import BiLmOptions, CharacterOptions, WordOptions
from elmo_tasks.elmo.files import DEFAULT_OPTIONS
from elmo_tasks.elmo.inference.training_products import product, trains_in_bfloat16
from elmo_tasks.training import FusedAdam

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
    """Of each side, the seconds of each round."""
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
    print(f"{case}, beside {peer.__name__}, batches of {network.tokens:,} tokens")
    print(f"  peer: {theirs.learned()}")
    for (precision, side), times in zip(ours.items(), our_times, strict=True):
        performed = sum(operations(network, batch["block"]) for batch in side.batches[WARM_UP:])
        share = performed / sum(times) / product_rate(precision)
        print(f"  ours, {precision}: {side.learned()}, {share:.0%} of the product rate")
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
    Of the matrix products of a training step: for each of the forward ones, one for the gradient of either
    factor. Without the convolutions, which are few beside them.
    """
    options = network.options
    size, dim, tokens = options.projection_dim, options.dim, options.tokens
    lstm = options.n_layers * (4 * dim * 2 * size + (dim * size if dim != size else 0))
    softmax = (network.samples + 1) * size
    word = 0
    if isinstance(tokens, CharacterOptions):
        word = tokens.num_filters * (2 * tokens.n_highway * tokens.num_filters + size)
    return 3 * 2 * (block["inputs"].numel() * (lstm + softmax) + len(block["words"]) * word)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path)
    parser.add_argument("--batches", type=int, default=10, help="of a round, for each side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cuda", action="store_true", help="the original size on a GPU as well")
    parser.add_argument("--bf16", action="store_true", help="autocast on the GPU")
    parser.add_argument("--peak-tflops", type=float, help="of the GPU, in the precision of the products")
    add_results_argument(parser)


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
        print("There is no GPU here; its rows are left out.")
    show(results.ratios(), results.means(of="share of"), results.means(of="GPU"))
