"""The training of the English biLM that comes with the project: its log, and its settings compared."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from allennlp.common.params import with_overrides

from benchmarks.comparison import epoch_times
from benchmarks.configs import add_json_argument, read_config
from benchmarks.english import WEIGHTS
from benchmarks.results import Results, show
from elmo_tasks.commands.base import positive
from elmo_tasks.commands.experiments import train_and_report
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.table import Table
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.plots import save
from elmo_tasks.language_model.callbacks import FILE_NAME
from elmo_tasks.training.experiments import TrainingRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("part", "blocks", "tokens", "seconds", "text", "forward", "backward")
"""
All numbers start over in each part. A row without a text says where a part ended that was stopped after its
last measurement.
"""


def with_part(log: Table, part: str, run: Path) -> Table:
    """Returns the log with the rows of a run as a part, which is the last one unless it is already there."""
    path = run / FILE_NAME
    rows = Table.read(path) if path.exists() else Table(COLUMNS)
    if not rows.rows:
        raise InputError("has no perplexities of a run", where=path)
    columns = map(rows.column, ("batches", "tokens", "seconds", "text", "forward", "backward"))
    parts = {name: log.where("part", name).rows for name in dict.fromkeys(log.column("part"))}
    parts[part] = [(part, *row) for row in zip(*columns, strict=True)]
    return Table(COLUMNS, [row for of_part in parts.values() for row in of_part])


def figure(log: Table) -> "Figure":
    """A line a text; a vertical one where a part ends."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    picture = Figure(figsize=(7.5, 4.0))
    axes = picture.subplots()
    axes.set_prop_cycle(color=colormaps["tab20"].colors)  # type: ignore[attr-defined]
    before = 0.0
    lines: dict[str, list[tuple[float, float]]] = {}
    for part in dict.fromkeys(log.column("part")):
        of_part = log.where("part", part)
        tokens = [float(cell or 0) / 1e6 for cell in of_part.column("tokens")]
        for read, text, *perplexities in zip(
            tokens, *map(of_part.column, ("text", "forward", "backward")), strict=True
        ):
            if text is not None:
                lines.setdefault(str(text), []).append(
                    (before + read, sum(float(value or 0) for value in perplexities) / 2)
                )
        before += max(tokens)
        axes.axvline(before, color="lightgray", linewidth=0.8)
    for text, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=text)
    axes.set_yscale("log")
    ticks = [30, 40, 60, 80, 100, 150, 200, 300]
    axes.set_yticks(ticks, list(map(str, ticks)))
    axes.minorticks_off()
    axes.set_xlabel("million tokens read")
    axes.set_ylabel("perplexity of the text left out")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return picture


class TrainingLog:
    """
    The log of the English biLM's training, part by part, as CSV and as a curve.

    RUN is the folder of a part, trained by a config with `elmo_text_perplexities`. Its rows become the part
    `--part` of CSV, after the parts that the file already holds: a biLM is trained in several parts, each
    from the weights of the one before. The figure has the perplexity of each text, the mean of forward and
    backward, over the tokens of all parts.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("csv", type=Path)
        parser.add_argument("folder", type=Path, metavar="RUN")
        parser.add_argument("--part", required=True, metavar="NAME")

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        path: Path = arguments.csv
        log = with_part(
            Table.read(path) if path.exists() else Table(COLUMNS), arguments.part, arguments.folder
        )
        with atomic_file(path) as file:
            file.write(log.csv().encode())
        save(figure(log), path.with_suffix(".svg"))
        print(path, path.with_suffix(".svg"), sep="\n")


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
    """Returns the multiplications of a token; without the character CNN, which reads a distinct word once."""
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


def record(run: TrainingRun, results: Results) -> None:
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


class Sweep:
    """
    Compares settings of the English biLM (`bilm_english.jsonnet`). One thing is changed at a time: its size,
    the samples of its softmax, dropout, rate, or how often each corpus is read.

    TEXT is the folder of `english-text`. Each biLM has one run, with a rate that falls to zero, and reads as
    many tokens as cost the matrix products of `--tokens` with the size as configured, so that a large one
    reads less. OUT/results.csv has the tokens, the time of the run, and the perplexity of the sentences that
    are left out of English-EWT, Wikipedia and the novels, and of all corpora (the geometric mean), each the
    mean of forward and backward.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("text", type=Path, help="folder of the text")
        parser.add_argument("output", type=Path, help="folder of the runs; a killed command resumes there")
        parser.add_argument(
            "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="VARIANT"
        )
        parser.add_argument("--tokens", type=positive, default=2_000_000)
        add_json_argument(parser, "--overrides", "of all, as for `allennlp train`")

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        results = Results("biLM sweep", arguments.output / "results.csv", keep=True)
        runs = [
            TrainingRun(name, SEED, settings(name, arguments), arguments.output / name)
            for name in arguments.variants
        ]
        train_and_report(runs, jobs=1, packages=[])
        for one in runs:
            record(one, results)
        show(results.grid(results.metrics()))
