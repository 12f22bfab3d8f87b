"""
`allennlp elmo compare` and `allennlp elmo ablate`, which train variants of a config and show their scores.

`compare` varies the mix of ELMo's layers, and takes no ELMo or static vectors in its place. `ablate` makes
Tables 2 and 3 and Figure 1 of Peters et al. 2018.
"""

import statistics
import time
from collections.abc import Iterable
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides
from allennlp.data import DatasetReader

from elmo_tasks.commands.base import Positive, Seed, Verb, number, option, positional
from elmo_tasks.commands.partial_outputs import partial_folder
from elmo_tasks.commands.results import ResultsWriter
from elmo_tasks.commands.vectors import VECTOR_METHODS, train_file
from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.data.text_stream import instance_sentences
from elmo_tasks.elmo.model.scalar_mix import Weights
from elmo_tasks.evaluation.plots import bars, curves
from elmo_tasks.training.experiments import (
    NO_ELMO,
    SPREAD,
    Setting,
    TrainingRun,
    layer_rows,
    mean_and_deviation,
    own_setting,
    placement_rows,
    plan,
    score,
    summary,
    train,
    validation_metric,
    variants_at_chance,
)
from elmo_tasks.training.sampling import sample_size, unwrapped_block
from elmo_tasks.vectors.files import vector_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RunVerb(Verb):
    config: str = positional("CONFIG", "config of a task with ELMo")
    output: Path = positional("OUT", "folder of the runs and results")
    overrides: str = option("JSON that overrides keys of CONFIG, as for allennlp train", "", short="-o")
    seeds: list[Seed] = option(
        "random seeds; each setting is trained once with each", [13, 14, 15], nargs="+"
    )
    jobs: Positive = option("runs at a time", 1)
    include_package: list[str]
    """The option --include-package, which every verb has."""

    def elmo_config(self) -> dict[str, Any]:
        """Reads CONFIG. It must have ELMo, validation data, and one metric that chooses the best epoch."""
        config = Params.from_file(self.config, self.overrides).as_dict(quiet=True)
        model = config.get("model")
        elmo = model.get("elmo") if isinstance(model, dict) else None
        metric = config.get("trainer", {}).get("validation_metric")
        if not isinstance(elmo, dict) or elmo.get("placement") == "none":
            problem = "model.elmo is missing, or has the placement none: the model must have ELMo"
        elif not isinstance(metric, str) or not metric.startswith(("+", "-")):
            problem = f"trainer.validation_metric {metric!r} must be one metric, with + or - before it"
        elif not config.get("validation_data_path"):
            problem = "validation_data_path is missing: the scores on these data are compared"
        else:
            return config
        raise ConfigurationError(f"{self.config}: {problem}")


def train_and_report(runs: list[TrainingRun], *, jobs: int, packages: list[str]) -> None:
    """Trains the runs that are not done; shows the table of all, and the time left, after each."""
    before = done = sum(run.metrics() is not None for run in runs)
    start = time.monotonic()
    print(f"{len(runs)} runs, {done} of them done\n\n{summary(runs).markdown()}", flush=True)

    def report_run(run: TrainingRun) -> None:
        nonlocal done
        done += 1
        seconds = (time.monotonic() - start) / (done - before) * (len(runs) - done)
        left = timedelta(seconds=round(seconds))
        name = validation_metric(run.config)
        print(f"{done} of {len(runs)}: {run}: {name} {score(run):.4f}, about {left} left\n")
        print(summary(runs).markdown(), flush=True)

    train(runs, jobs=jobs, packages=packages, report=report_run)
    if low := variants_at_chance(runs):
        print(f"\nAt chance: {', '.join(low)}. Train on more data, or longer, before you compare these.")


def score_bars(runs: list[TrainingRun]) -> "Figure":
    metric = validation_metric(runs[0].config)
    rows: list[tuple[Cell, ...]] = [(run.variant, f"seed {run.seed}", score(run)) for run in runs]
    figure = bars(Table(("variant", "seed", metric), rows), groups="variant", bars="seed", heights=metric)
    figure.axes[0].tick_params(axis="x", labelrotation=90)
    return figure


MIXES: dict[str, dict[str, Any]] = {
    weights + ("" if gamma else "-no-gamma"): {
        "model.elmo.weights": weights,
        "model.elmo.gamma": gamma,
        # There is nothing to learn in a frozen mix.
        **({"model.elmo.mix_l2": None} if weights == "frozen" else {}),
    }
    for weights in get_args(Weights)
    for gamma in (True, False)
}
WITHOUT_ELMO: dict[str, Any] = {"model.elmo.placement": "none", "model.elmo.mix_l2": None}
VARIANTS = (*MIXES, "no-elmo", *VECTOR_METHODS)

_TOKENS_KEY = "model.text_field_embedder.token_embedders.tokens"
RESULTS = "results.csv"


def _vectors_option(method: str) -> Any:
    help = f"file of word vectors (default: the output of `vectors {method}` for the training data)"
    return option(help, metavar="FILE")


class Compare(RunVerb):
    name = "compare"
    help = "Mixes, gamma and static vectors, compared."
    description = f"""Trains a config with ELMo once for each variant and seed: the mix of ELMo's layers
        trainable, frozen at random, or a learned function of them, each with and without gamma; no ELMo; and,
        without ELMo, word vectors that start as vectors of Word2Vec or of an SVD, trained on the text of the
        training data. Each run has a folder of its own in OUT. After a kill, the same command continues.
        {RESULTS}, .md, .png and .svg show the best scores on the validation data."""

    variants: list[str] = option(
        ", ".join(VARIANTS), VARIANTS, nargs="+", choices=VARIANTS, metavar="VARIANT"
    )
    word2vec: str | None = _vectors_option("word2vec")
    svd: str | None = _vectors_option("svd")
    mlflow: str | None = option(
        "log the runs to MLflow, in one experiment with the name of CONFIG; the URI is a store or server "
        "(without one: sqlite:///OUT/mlflow.db)",
        metavar="URI",
        nargs="?",
        const="",
    )

    def run(self) -> None:
        output = self.output
        config = self.elmo_config()
        with partial_folder(output / RESULTS) as folder:
            variants = {**MIXES, "no-elmo": WITHOUT_ELMO}
            for method in VECTOR_METHODS:
                if method in self.variants:
                    file = getattr(self, method) or train_vectors(config, method, output, folder)
                    variants[method] = WITHOUT_ELMO | with_vectors(file)
            chosen = {name: variants[name] for name in self.variants}
            runs = plan(config, chosen, seeds=dict.fromkeys(self.seeds), folder=output)
            if self.mlflow is not None:
                uri = self.mlflow or f"sqlite:///{output.resolve() / 'mlflow.db'}"
                experiment = Path(self.config).name.partition(".")[0]
                runs = [tracked(run, uri=uri, experiment=experiment) for run in runs]
            train_and_report(runs, jobs=self.jobs, packages=self.include_package)
            ResultsWriter(folder, output / RESULTS).write(summary(runs), score_bars(runs))


def train_vectors(config: dict[str, Any], method: str, output: Path, folder: Path) -> str:
    """Trains vectors of the size of the embedding named `tokens`."""
    needed = "the config needs an embedding and an indexer named 'tokens'"
    with errors_as(ConfigError, needed, KeyError, where=method):
        dim = config["model"]["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"]
        indexer = unwrapped_block(config["dataset_reader"])["token_indexers"]["tokens"]
    lowercase = indexer.get("lowercase_tokens", False)
    return text_vectors(config, method, output, folder, dim=dim, lowercase=lowercase)


def text_vectors(
    config: dict[str, Any], method: str, output: Path, folder: Path, *, dim: int, lowercase: bool
) -> str:
    """Returns a file in `output` that is named by text and size, so that vectors are trained once."""
    reader = DatasetReader.from_params(Params(config["dataset_reader"]).duplicate())
    digest = blake2b(digest_size=4)
    with open(folder / "sentences.txt", "wb") as file:
        for words in instance_sentences(reader.read(config["train_data_path"])):
            line = f"{' '.join(words)}\n".encode()
            file.write(line)
            digest.update(line)
    digest.update(f"{dim} {lowercase}".encode())
    path = output / f"{method}-{digest.hexdigest()}.txt.gz"
    if not path.exists():
        train_file(method, str(folder / "sentences.txt"), path, lowercase=lowercase, dim=dim)
    return str(path)


def with_vectors(file: str) -> dict[str, Any]:
    return {f"{_TOKENS_KEY}.pretrained_file": file, f"{_TOKENS_KEY}.embedding_dim": vector_size(file)}


def tracked(run: TrainingRun, *, uri: str, experiment: str) -> TrainingRun:
    callback = {"type": "elmo_mlflow", "experiment": experiment, "run_name": str(run)}
    callbacks = [*run.config["trainer"].get("callbacks", []), callback]
    config = with_overrides(run.config, {"trainer.callbacks": callbacks})
    return run._replace(config=config, tracking_uri=uri)


TABLES = ("layers", "placement", "samples")
Fraction = Annotated[float, number(float, "a number above 0, up to 1", lambda value: 0 < value <= 1)]


class Ablate(RunVerb):
    name = "ablate"
    help = "Layers, placement and data, as in the paper's tables."
    description = """Trains a config with ELMo once for each seed and setting: the top layer, and all layers
        with lambda 1 and .001 (layers); ELMo at the input, at the output, and at both (placement); and parts
        of the training data, with ELMo and without (samples). All other keys are as in CONFIG; the baseline
        is CONFIG without ELMo. A setting of several tables is trained once. Each run has a folder
        of its own in OUT. After a kill, the same command continues. A .csv, .md, .png and .svg for each table
        show the best scores on the validation data."""

    tables: list[str] = option(", ".join(TABLES), TABLES, nargs="+", choices=TABLES, metavar="TABLE")
    fractions: list[Fraction] = option(
        "parts of the training data to train on, drawn at random; 1 is all of it", [0.01, 0.1, 1.0], nargs="+"
    )

    def run(self) -> None:
        output = self.output
        config = self.elmo_config()
        if "layers" in self.tables and config["model"]["elmo"].get("weights") == "frozen":
            raise ConfigurationError(
                f"{self.config}: model.elmo.weights is 'frozen', but the table layers varies the lambda of "
                "learned weights; use --tables placement samples"
            )
        own = own_setting(config)
        rows_of = {"layers": layer_rows, "placement": placement_rows}
        tables = {name: rows(own) for name, rows in rows_of.items() if name in self.tables}
        samples: dict[float, int] = {}
        if "samples" in self.tables:
            reader = DatasetReader.from_params(Params(config["dataset_reader"]).duplicate())
            total = sum(1 for _ in reader.read(config["train_data_path"]))
            samples = {part: sample_size(part, total) for part in sorted(set(self.fractions))}
        settings = [setting for rows in tables.values() for setting in rows.values()]
        settings += [kind._replace(fraction=part) for part in samples for kind in (own, NO_ELMO)]
        with partial_folder(output / "tables") as folder:
            runs = [
                run
                for seed in dict.fromkeys(self.seeds)
                for run in plan(
                    config,
                    {str(setting): setting.overrides(config, seed) for setting in settings},
                    seeds=[seed],
                    folder=output,
                )
            ]
            train_and_report(runs, jobs=self.jobs, packages=self.include_package)
            for name, rows in tables.items():
                shown = [
                    run._replace(variant=row)
                    for row, setting in rows.items()
                    for run in _runs_of(setting, runs)
                ]
                print()
                ResultsWriter(folder, output / f"{name}.csv").write(summary(shown), score_bars(shown))
            if samples:
                table = sample_table(runs, own, samples)
                print()
                metric, deviation = table.columns[3:5]
                figure = curves(table, lines="ELMo", x="fraction", heights=metric, errors=deviation)
                ResultsWriter(folder, output / "samples.csv").write(table, figure)


def sample_table(runs: list[TrainingRun], own: Setting, samples: dict[float, int]) -> Table:
    """
    Makes the paper's Figure 1: for each fraction, without and with ELMo, the best validation scores, the
    epochs up to them, and those in which ELMo reaches the best score without it, if every seed does.
    `samples` has the size of each fraction.
    """
    metric = validation_metric(runs[0].config)
    columns = ("fraction", "training instances", "ELMo", metric, *SPREAD)
    seeds = (f"seed {seed}" for seed in dict.fromkeys(run.seed for run in runs))
    table = Table((*columns, "epochs to best", "epochs to best without ELMo", *seeds))
    for fraction, size in samples.items():
        without, with_elmo = (_runs_of(kind._replace(fraction=fraction), runs) for kind in (NO_ELMO, own))
        to_baseline = _mean(map(_epochs_to_best, with_elmo, without))
        for name, variant, catches_up in (("without", without, None), ("with", with_elmo, to_baseline)):
            scores = [score(run) for run in variant]
            epochs = _mean(map(_epochs_to_best, variant, variant))
            table.add(fraction, size, name, *mean_and_deviation(scores), epochs, catches_up, *scores)
    return table


def _runs_of(setting: Setting, runs: list[TrainingRun]) -> list[TrainingRun]:
    return [run for run in runs if run.variant == str(setting)]


def _epochs_to_best(run: TrainingRun, other: TrainingRun) -> int | None:
    metric = validation_metric(run.config)
    sign = -1 if run.config["trainer"]["validation_metric"].startswith("-") else 1
    wanted = score(other)
    assert wanted is not None
    scores = enumerate(run.scores(metric), start=1)
    return next((epochs for epochs, value in scores if sign * value >= sign * wanted), None)


def _mean(numbers: Iterable[int | None]) -> float | None:
    values = list(numbers)
    present = [value for value in values if value is not None]
    return statistics.mean(present) if len(present) == len(values) else None
