"""The verbs about archives: `mix`, `models` and `slim`."""

from dataclasses import dataclass
from pathlib import Path

from elmo_tasks import __version__
from elmo_tasks.archives.opening import extracted_archive, packed_archive
from elmo_tasks.archives.slim import slim, trained_archives, trained_card
from elmo_tasks.commands.base import DType, Input, Verb, archive_argument, flag, option, run_name
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.common.plot import heat_map
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.evaluation.mixes import LearnedMix, read_mixes


@dataclass(frozen=True, kw_only=True)
class Mix(Verb):
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
    runs = {(mix.model, run_name(archive)) for archive, mix in mixes}
    rows = [f"{mix.model}, {mix.placement}" for _, mix in mixes]
    if len(runs) == len({mix.model for _, mix in mixes}):
        return rows
    return [f"{run_name(archive)}: {row}" for (archive, _), row in zip(mixes, rows, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Models(Verb):
    name = "models"
    help = "The models that come trained."
    description = """Lists the archives that come with the project, with their scores. `elmo:NAME` is the path
        of an archive for each command, and `elmo_tasks.load("NAME")` opens it in Python."""

    def run(self) -> None:
        table = Table(("name", "task", "trained on", "licence of the text", "score", "MB"))
        for name, path in trained_archives().items():
            card = trained_card(name)
            size = f"{path.stat().st_size / 1e6:.1f}"
            table.add(f"elmo:{name}", *map(card.get, ("task", "data", "licence", "score")), size)
        print(table.markdown() if table.rows else "none is installed: pip install elmo_tasks[models]")


@dataclass(frozen=True, kw_only=True)
class Slim(Verb):
    name = "slim"
    help = "An archive without its biLM."
    description = """Writes the archive of a model without its biLM, which must be the one that comes with the
        project, frozen. When the archive is opened, this biLM is put into it. A version of the project with
        another biLM refuses the archive."""

    archive: Input = archive_argument()
    output: Path = option("tar.gz file to write", short="-o", metavar="OUT", required=True)
    dtype: DType = option("type of the stored weights; float16 rounds them", "float32")
    force: bool = flag("overwrite OUT")

    def run(self) -> None:
        path = packed_archive(self.archive)
        with partial_file(self.output, force=self.force) as staged, extracted_archive(path) as folder:
            slim(folder, staged, dtype=self.dtype, version=__version__)
        before, after = (file.stat().st_size / 1e6 for file in (path, self.output))
        print(f"{self.output}: {after:.1f} MB, {before:.1f} MB before")
