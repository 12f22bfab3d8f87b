"""`allennlp elmo mix`: the mixes that tasks have learned (the paper's Figure 2)."""

import argparse

from elmo_tasks.commands.base import Verb, add_archive_argument, run_name
from elmo_tasks.commands.results import add_output_arguments, open_results
from elmo_tasks.common.plot import heat_map
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.evaluation.mixes import LearnedMix, read_mixes


class Mix(Verb):
    """See `evaluation.mixes`."""

    name = "mix"
    help = "The mix weights that models have learned."
    description = """The normalised weight of each layer, and gamma, of each placement of ELMo in archived
        models. Weights that are a function of the token have no fixed numbers, and are left empty."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_archive_argument(parser, "archives", nargs="+")
        add_output_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        with open_results(arguments) as output:
            archives = progress(arguments.archives, work="mix", unit="archives")
            mixes = [(archive, mix) for archive in archives for mix in read_mixes(archive)]
            layers = range(max(mix.bilm.num_layers for _, mix in mixes))
            names = [f"layer {layer}" for layer in layers]
            table = Table(("archive", "model", "placement", "weights", "gamma", *names))
            for archive, mix in mixes:
                cells = _cells(mix.shares(), len(layers))
                table.add(archive, mix.model, mix.placement, mix.kind(), mix.gamma(), *cells)
            figure = heat_map(
                [row[-len(layers) :] for row in table.rows],
                rows=_rows(mixes),
                columns=names,
            )
            output.write(table, figure)


def _rows(mixes: list[tuple[str, LearnedMix]]) -> list[str]:
    """The names of the picture's rows; the run is in them if there are several of one model."""
    runs = {(mix.model, run_name(archive)) for archive, mix in mixes}
    rows = [f"{mix.model}, {mix.placement}" for _, mix in mixes]
    if len(runs) == len({mix.model for _, mix in mixes}):
        return rows
    return [f"{run_name(archive)}: {row}" for (archive, _), row in zip(mixes, rows, strict=True)]


def _cells(shares: list[float] | None, layers: int) -> list[Cell]:
    """Empty where there is no number: archives may differ in their number of layers."""
    numbers: list[Cell] = [*(shares or ())]
    return numbers + [None] * (layers - len(numbers))
