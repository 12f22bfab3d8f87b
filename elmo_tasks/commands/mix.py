"""`allennlp elmo mix`: the mixes that tasks have learned (the paper's Figure 2)."""

from dataclasses import dataclass

from elmo_tasks.commands.base import Input, Verb, archive_argument, run_name
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.common.plot import heat_map
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.evaluation.mixes import LearnedMix, read_mixes


@dataclass(frozen=True, kw_only=True)
class Mix(Verb):
    """The verb `mix`; see `evaluation.mixes`."""

    name = "mix"
    help = "The mix weights that models have learned."
    description = """Shows the normalised weight of each layer, and gamma, for each placement of ELMo in
        archived models. Weights that are a function of the token have no fixed numbers, and are left
        empty."""

    archives: list[Input] = archive_argument(nargs="+")
    results: ResultArguments

    def run(self) -> None:
        with self.results.writer() as writer:
            archives = progress(self.archives, work="mix", unit="archives")
            mixes = [(archive, mix) for archive in archives for mix in read_mixes(archive)]
            layers = range(max(mix.bilm.num_layers for _, mix in mixes))
            names = [f"layer {layer}" for layer in layers]
            table = Table(("archive", "model", "placement", "weights", "gamma", *names))
            for archive, mix in mixes:
                # Archives may differ in their number of layers.
                shares: list[Cell] = [*(mix.shares() or ())]
                shares += [None] * (len(layers) - len(shares))
                table.add(archive, mix.model, mix.placement, mix.kind(), mix.gamma(), *shares)
            figure = heat_map(
                [row[-len(layers) :] for row in table.rows], rows=_row_names(mixes), columns=names
            )
            writer.write(table, figure)


def _row_names(mixes: list[tuple[str, LearnedMix]]) -> list[str]:
    """Returns the names of the picture's rows, with the name of the run if one model has several."""
    runs = {(mix.model, run_name(archive)) for archive, mix in mixes}
    rows = [f"{mix.model}, {mix.placement}" for _, mix in mixes]
    if len(runs) == len({mix.model for _, mix in mixes}):
        return rows
    return [f"{run_name(archive)}: {row}" for (archive, _), row in zip(mixes, rows, strict=True)]
