"""
What the English biLM should be like (`bilm_english.jsonnet`): one thing is changed at a time, its size, the
samples of its softmax, dropout, rate, or how often each corpus is read.

TEXT is the folder of `english-text`. Each biLM has one run, with a rate that falls to zero, and reads as many
tokens as cost the matrix products of `--tokens` with the size as configured, so that a large one reads less.
OUT/results.csv has the tokens, the time of the run, and the perplexity of the sentences that are left out of
English-EWT, Wikipedia and the novels, and of all corpora (the geometric mean), each the mean of forward and
backward.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from allennlp.common.params import with_overrides

from benchmarks.configs import add_json_argument, read_config
from benchmarks.english_text import WEIGHTS
from benchmarks.finished_runs import epoch_times
from benchmarks.results import Results, show
from elmo_tasks.commands.arguments import train_and_report
from elmo_tasks.commands.base import positive
from elmo_tasks.evaluation.table import Table
from elmo_tasks.language_model.callbacks import FILE_NAME
from elmo_tasks.training.experiments import Run

AS_CONFIGURED, EACH_ONCE = "2x1024_128", "each corpus once"
SEED = 13
"""The config's."""
_DIM = "model.options.lstm.dim"
_SAMPLES = "model.softmax.num_samples"
_RATE = "trainer.optimizer.lr"
VARIANTS: dict[str, dict[str, Any]] = {
    AS_CONFIGURED: {},
    "2x768_128": {_DIM: 768},
    "2x512_128": {_DIM: 512},
    "1,024 samples": {_SAMPLES: 1024},
    "8,192 samples": {_SAMPLES: 8192},
    "dropout .1": {"model.dropout": 0.1},
    "rate .0008": {_RATE: 0.0008},
    "rate .003": {_RATE: 0.003},
    EACH_ONCE: {},
}
SHOWN = ("ewt", "wikipedia", "litbank")
TOKENS = "million tokens"
ALL = "all corpora"


def products(config: Mapping[str, Any]) -> int:
    """Multiplications for a token, but those of the character CNN, which reads each distinct word once."""
    lstm = config["model"]["options"]["lstm"]
    dim, projection = lstm["dim"], lstm["projection_dim"]
    layer = 4 * dim * 2 * projection + dim * projection
    return 2 * (lstm["n_layers"] * layer + config["model"]["softmax"]["num_samples"] * projection)


def settings(variant: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The config of a biLM, whose one epoch has the blocks that `--tokens` are worth."""

    def text(name: str) -> str:
        return str(arguments.text / f"{name}.txt.gz")

    weights = dict.fromkeys(WEIGHTS, 1) if variant == EACH_ONCE else WEIGHTS
    configured = read_config("bilm_english", arguments.overrides)
    config = with_overrides(configured, VARIANTS[variant])
    reader = config["dataset_reader"]
    tokens = arguments.tokens * products(configured) / products(config)
    config["train_data_path"] = [text(name) for name, times in weights.items() for _ in range(times)]
    config["validation_data_path"] = [text(f"valid-{name}") for name in WEIGHTS]
    config["vocabulary"]["words_file"] = str(arguments.text / "vocab.txt")
    config["data_loader"]["batches_per_epoch"] = max(
        1, round(tokens / (reader["streams"] * reader["bptt_steps"]))
    )
    trainer = config["trainer"]
    trainer["num_epochs"] = 1
    trainer["learning_rate_scheduler"] = {"type": "elmo_linear_with_warmup", "warmup": 0.05}
    for callback in trainer["callbacks"]:
        if callback["type"] == "elmo_text_perplexities":
            callback["texts"] = {name: text(f"valid-{name}") for name in WEIGHTS}
    return config


def record(run: Run, results: Results) -> None:
    """The perplexities of a run that is done."""
    rows = Table.read(run.folder / FILE_NAME)
    seconds = sum(epoch_times(run))
    results.add(run.variant, run.seed, TOKENS, float(rows.column("tokens")[-1] or 0) / 1e6, seconds)
    of_text = {
        str(name): (float(forward or 0) + float(backward or 0)) / 2
        for name, forward, backward in zip(*map(rows.column, ("text", "forward", "backward")), strict=True)
    }
    for name in SHOWN:
        results.add(run.variant, run.seed, name, of_text[name], seconds)
    results.add(run.variant, run.seed, ALL, geometric_mean(of_text.values()), seconds)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="folder of the text")
    parser.add_argument("output", type=Path, help="folder of the runs; a killed command goes on there")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--tokens", type=positive, default=2_000_000)
    add_json_argument(parser, "--overrides", "of all, as for `allennlp train`")


def run(arguments: argparse.Namespace) -> None:
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = Results("biLM sweep", arguments.output / "results.csv", keep=True)
    runs = [
        Run(name, SEED, settings(name, arguments), arguments.output / name) for name in arguments.variants
    ]
    train_and_report(runs, jobs=1, packages=[])
    for one in runs:
        record(one, results)
    show(results.grid(results.metrics()))
