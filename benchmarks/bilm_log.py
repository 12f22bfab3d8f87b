"""
The log of the English biLM's training, part by part, as CSV and as a curve beside it.

RUN is the folder of a part, trained by a config with `elmo_text_perplexities`. Its rows become those of
`--part` in CSV, behind the parts that the file has already: a biLM is trained in several parts, each from the
weights of the one before. The figure has the perplexity of each text, the mean of forward and backward, over
the tokens of all parts.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_tasks.commands.results import save_svg
from elmo_tasks.common.files import atomic_file
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.table import Table
from elmo_tasks.language_model.callbacks import FILE_NAME

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("part", "blocks", "tokens", "seconds", "text", "forward", "backward")
"""
All numbers begin anew in each part. A row without a text says where a part ended that was stopped behind its
last measurement.
"""


def with_part(log: Table, part: str, run: Path) -> Table:
    """The log with the rows of a run as those of a part, the last one unless the log has it already."""
    path = run / FILE_NAME
    rows = Table.read(path) if path.exists() else Table(COLUMNS)
    if not rows.rows:
        raise InputError.at(path, found="no row", expected="the perplexities of a run")
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
        for place, text, *perplexities in zip(
            tokens, *map(of_part.column, ("text", "forward", "backward")), strict=True
        ):
            if text is not None:
                lines.setdefault(str(text), []).append(
                    (before + place, sum(float(value or 0) for value in perplexities) / 2)
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("csv", type=Path)
    parser.add_argument("folder", type=Path, metavar="RUN")
    parser.add_argument("--part", required=True, metavar="NAME")


def run(arguments: argparse.Namespace) -> None:
    path: Path = arguments.csv
    log = with_part(Table.read(path) if path.exists() else Table(COLUMNS), arguments.part, arguments.folder)
    with atomic_file(path) as file:
        file.write(log.csv().encode())
    save_svg(figure(log), path)
    print(path, path.with_suffix(".svg"), sep="\n")
