"""
The arguments that say which biLM runs, and where.

The arguments that say which vectors are meant: a biLM's, static ones beside them, words in contexts.

What the verbs share that train variants of a config with ELMo.
"""

import argparse
import math
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import Distinct, Source, positive, seed
from elmo_tasks.commands.staging import copy_corpus
from elmo_tasks.common.plot import bars
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.files import (
    DEFAULT_OPTIONS,
    DEFAULT_WEIGHTS,
    check_together,
    prepare_on,
    read_frozen_bilm,
    read_initial_state,
    read_options,
)
from elmo_tasks.elmo.inference import PRECISIONS
from elmo_tasks.evaluation.mixes import read_mixes, same_weights
from elmo_tasks.training.experiments import Run, score, summary, train, validation_metric
from elmo_tasks.vectors.encoder import BiLmEncoder, Encoder, Mix, StaticVectors
from elmo_tasks.vectors.text_format import read_table
from elmo_tasks.vectors.word_vectors import WordVectors, alone, in_contexts


# ==== commands.bilm_arguments
def add_bilm_arguments(parser: argparse._ActionsContainer) -> None:
    shipped = "(default: the biLM that comes with the project)"
    parser.add_argument(
        "--options-file", type=Source, help=f"path, URL or hf:// name of options.json {shipped}"
    )
    parser.add_argument(
        "--weight-file",
        type=Source,
        help="path, URL or hf:// name of the HDF5 weights; or, without options, of a folder or zip of "
        f"ELMoForManyLangs or of NLPL's repository {shipped}",
    )
    parser.add_argument(
        "--vocabulary-file",
        type=Source,
        help="path, URL or hf:// name of the words of a biLM that reads words, one a line",
    )
    parser.add_argument(
        "--device", default="cpu", help="where the biLM runs, as PyTorch calls it: cpu, cuda:0"
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="number format in which the biLM multiplies; only float32 is exact",
    )


def read_bilm(arguments: argparse.Namespace, *, device: str | None = None) -> FrozenBiLm:
    """
    The biLM of the arguments, frozen, on its device, or on another `device`.

    # Raises
    `ConfigurationError`: options without weights or the reverse, a device that is not there, or whatever
    reading the files raises.
    """
    check_together(arguments.options_file, arguments.weight_file, names="--options-file and --weight-file")
    weight_file = arguments.weight_file or DEFAULT_WEIGHTS
    bilm = read_frozen_bilm(
        read_options(arguments.options_file or DEFAULT_OPTIONS, weight_file),
        weight_file,
        arguments.vocabulary_file,
        precision=arguments.precision,
    )
    return prepare_on(bilm, device or arguments.device, asked="--device")


def read_start(initial_state: str | None, bilm: FrozenBiLm) -> LstmState:
    """Where a single sentence starts."""
    zeros = bilm.initial_state(1)
    if initial_state is None:
        return zeros
    parts = read_initial_state(initial_state, bilm.options)
    return LstmState(*(part.unsqueeze(2).to(zero) for part, zero in zip(parts, zeros, strict=True)))


# ==== commands.vector_arguments
def add_vector_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--mix",
        type=Source,
        action="append",
        default=[],
        metavar="WEIGHTS",
        help="evaluate a weighted sum of the layers, too: numbers with commas, the token layer's first, or "
        "the archive of a model with this biLM, for the mixes that it has learned; may be repeated",
    )
    parser.add_argument(
        "--vectors",
        type=Source,
        action="append",
        default=[],
        metavar="FILE",
        help="evaluate static word vectors, too: text as GloVe and word2vec write it, gzip or not; may be "
        "repeated",
    )
    add_bilm_arguments(parser)


def add_context_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that `word_vectors` reads."""
    parser.add_argument(
        "--contexts",
        type=Source,
        metavar="TEXT",
        help="text, one tokenised sentence a line, in which words are encoded; if a word never stands "
        "there as it is, case is ignored (default: words are encoded alone)",
    )
    parser.add_argument(
        "--occurrences",
        type=positive,
        default=20,
        help="of a word in --contexts that are averaged, at most",
    )
    parser.add_argument("--seed", type=seed, default=13, help="by which occurrences are drawn")


def word_vectors(
    encoder: Encoder, words: Sequence[str], arguments: argparse.Namespace, folder: Path
) -> list[WordVectors]:
    """
    The vectors of words alone, or in the text of `--contexts`, of which `folder` holds a copy meanwhile.
    """
    if arguments.contexts is None:
        return alone(encoder, words)
    text = copy_corpus(arguments.contexts, folder)
    return in_contexts(encoder, words, text, limit=arguments.occurrences, seed=arguments.seed)


def read_bilm_encoder(arguments: argparse.Namespace) -> BiLmEncoder:
    """
    An encoder with the layers of the biLM, their average, and the mixes of `--mix`.

    # Raises
    `ConfigurationError`: a mix that does not fit the biLM, and whatever reading the files raises.
    """
    bilm = read_bilm(arguments)
    mixes: dict[str, Mix] = {}
    for text in arguments.mix:
        mixes |= _mixes(text, bilm)
    return BiLmEncoder(bilm=bilm, mixes=mixes)


def read_static_vectors(arguments: argparse.Namespace) -> list[StaticVectors]:
    """The static vectors of `--vectors`, in that order, by the names of their files, or else their paths."""
    paths: list[str] = arguments.vectors
    names = [path.rstrip("/").rpartition("/")[2] for path in paths]
    return [
        StaticVectors(name=name if names.count(name) == 1 else path, table=read_table(path))
        for path, name in zip(paths, names, strict=True)
    ]


def _mixes(text: str, bilm: FrozenBiLm) -> dict[str, Mix]:
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        return _learned_mixes(text, bilm)
    if len(weights) != bilm.num_layers or not all(map(math.isfinite, weights)):
        raise ConfigurationError(
            f"--mix: found {text}, expected {bilm.num_layers} numbers, one a layer, with commas between them"
        )
    on_device = torch.tensor(weights, device=bilm.device)
    return {f"mix {text}": partial(torch.tensordot, on_device, dims=1)}


def _learned_mixes(archive: str, bilm: FrozenBiLm) -> dict[str, Mix]:
    learned = read_mixes(archive)
    if not all(same_weights(bilm, mix.bilm) for mix in learned):
        raise ConfigurationError(
            f"--mix: {archive} was trained with another biLM than the one to be evaluated; "
            "`allennlp elmo export` writes its biLM, for --options-file and --weight-file"
        )
    device = bilm.device
    return {f"{archive} {mix.placement}": mix.mix.to(device) for mix in learned}


# ==== commands.experiment_arguments
if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="config of a task with ELMo")
    parser.add_argument("output", metavar="OUT", type=Path, help="folder of the runs and results")
    parser.add_argument(
        "-o", "--overrides", default="", help="JSON that overrides keys of CONFIG, as for allennlp train"
    )
    parser.add_argument(
        "--seeds",
        type=seed,
        nargs="+",
        action=Distinct,
        default=[13, 14, 15],
        help="random seeds; each setting is trained once with each",
    )
    parser.add_argument("--jobs", type=positive, default=1, help="runs at a time")


def read_elmo_config(arguments: argparse.Namespace) -> dict[str, Any]:
    """
    CONFIG with its overrides.

    # Raises
    `ConfigurationError`: its model has no ELMo or does not use it, or its trainer has no metric to choose the
    best epoch by.
    """
    config = Params.from_file(arguments.config, arguments.overrides).as_dict(quiet=True)
    model = config.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("elmo"), dict):
        raise ConfigurationError(f"{arguments.config}: found no model.elmo, expected a config with ELMo")
    if model["elmo"].get("placement") == "none":
        raise ConfigurationError(
            f"{arguments.config}: model.elmo.placement: found 'none', expected where ELMo is to be"
        )
    metric = config.get("trainer", {}).get("validation_metric")
    if not isinstance(metric, str) or not metric.startswith(("+", "-")):
        raise ConfigurationError(
            f"{arguments.config}: found the trainer.validation_metric {metric!r}, expected one metric, with "
            "+ or - before it"
        )
    return config


def train_and_report(runs: list[Run], *, jobs: int, packages: list[str]) -> None:
    """
    Trains the runs that are not done. At first, and after each run, it shows the table of all, empty where a
    run is left, and the time that these will take, if each takes as long as those before.
    """
    before = done = sum(run.metrics() is not None for run in runs)
    start = time.monotonic()
    print(f"{len(runs)} runs, {done} of them done\n\n{summary(runs).markdown()}", flush=True)

    def report_run(run: Run) -> None:
        nonlocal done
        done += 1
        seconds = (time.monotonic() - start) / (done - before) * (len(runs) - done)
        left = timedelta(seconds=round(seconds))
        name = validation_metric(run.config)
        print(f"{done} of {len(runs)}: {run}: {name} {score(run):.4f}, about {left} left\n")
        print(summary(runs).markdown(), flush=True)

    train(runs, jobs=jobs, packages=packages, report=report_run)


def figure(runs: list[Run]) -> "Figure":
    """A group of bars a variant, a bar a seed."""
    metric = validation_metric(runs[0].config)
    rows: list[tuple[Cell, ...]] = [(run.variant, f"seed {run.seed}", score(run)) for run in runs]
    picture = bars(Table(("variant", "seed", metric), rows), groups="variant", bars="seed", heights=metric)
    picture.axes[0].tick_params(axis="x", labelrotation=90)
    return picture
