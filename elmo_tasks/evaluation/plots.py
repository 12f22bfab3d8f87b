"""Plots of tables of results."""

import logging
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_tasks.common.table import Cell, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

MAX_FIELDS = 40
"""The most rows or columns of a heat map that shows its numbers."""
_OTHER_SCRIPTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans CJK SC",
    "Noto Sans KR",
    "Noto Sans JP",
    "Noto Sans SC",
    "NanumGothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
)
"""Fonts for scripts that matplotlib's own font lacks; a machine may have some of them."""
_LACKING = re.compile(r"Glyph (\d+) .* missing from")


def bars(table: Table, *, groups: str, bars: str, heights: str) -> "Figure":
    """Draws groups of bars from three columns; where `heights` has no number, the bar is left out."""
    heights_by_bar = dict(
        zip(zip(table.column(groups), table.column(bars), strict=True), table.column(heights), strict=True)
    )
    names, kinds = _distinct(table.column(groups)), _distinct(table.column(bars))
    width = 0.8 / len(kinds)
    figure = _new_figure(2.5 + 0.3 * len(names) * len(kinds), 4.0)
    axes = figure.subplots()
    for index, kind in enumerate(kinds):
        xs = [group - 0.4 + (index + 0.5) * width for group in range(len(names))]
        drawn = axes.bar(
            xs,
            [_number(heights_by_bar.get((name, kind))) for name in names],
            width,
            label=_without_formulas(kind),
        )
        axes.bar_label(drawn, fmt="%.2f", fontsize=6)
    axes.set_xticks(range(len(names)), list(map(_without_formulas, names)))
    axes.set_ylabel(heights)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def heat_map(
    values: Sequence[Sequence[Cell]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    middle: float | None = None,
) -> "Figure":
    """
    Draws numbers from 0 to 1 as colours, or numbers on either side of a `middle`; up to `MAX_FIELDS` rows and
    columns it shows them, too.
    """
    width, height = (min(len(names), MAX_FIELDS) for names in (columns, rows))
    figure = _new_figure(2.5 + 0.8 * width, 1.0 + 0.4 * height)
    axes = figure.subplots()
    numbers = [[_number(value) for value in row] for row in values]
    low, high, colours = 0.0, 1.0, "Blues"
    if middle is not None:
        distances = [abs(value - middle) for line in numbers for value in line if not math.isnan(value)]
        reach = max([0.1, *distances])
        low, high, colours = middle - reach, middle + reach, "PuOr"
    image = axes.imshow(numbers, vmin=low, vmax=high, cmap=colours, aspect="auto")
    axes.set_xticks(range(len(columns)), list(map(_without_formulas, columns)))
    axes.set_yticks(range(len(rows)), list(map(_without_formulas, rows)))
    if max(len(columns), len(rows)) > MAX_FIELDS:
        axes.tick_params(axis="x", labelrotation=90)
    else:
        for row, line in enumerate(numbers):
            for column, value in enumerate(line):
                if not math.isnan(value):
                    share = (value - low) / (high - low)
                    is_dark = share > 0.5 if middle is None else abs(2 * share - 1) > 0.7
                    colour = "white" if is_dark else "black"
                    axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour)
    figure.colorbar(image)
    return figure


def curves(table: Table, *, lines: str, x: str, heights: str, errors: str) -> "Figure":
    """Draws lines with error bars over a logarithmic axis; without numbers the point is left out."""
    figure = _new_figure(6.0, 4.0)
    axes = figure.subplots()
    for line in _distinct(table.column(lines)):
        columns = map(table.where(lines, line).column, (x, heights, errors))
        xs, ys, sizes = ([_number(cell) for cell in column] for column in columns)
        axes.errorbar(xs, ys, yerr=sizes, marker="o", capsize=3, label=_without_formulas(f"{line} {lines}"))
    axes.set_xscale("log")
    ticks = [_number(cell) for cell in _distinct(table.column(x))]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(x)
    axes.set_ylabel(heights)
    axes.legend(fontsize=7)
    return figure


def save(figure: "Figure", path: Path) -> None:
    """
    Writes the figure in the format of the path's suffix; equal figures give equal SVG files. If the machine's
    fonts lack characters, an SVG holds them as text, to be drawn with the viewer's fonts. Other formats show
    boxes instead, and a warning is logged.
    """
    from matplotlib import rc_context, rcParams
    from matplotlib.font_manager import get_font_names

    is_svg = path.suffix == ".svg"
    options: dict[str, Any] = {"metadata": {"Date": None}} if is_svg else {"dpi": 150}
    installed = set(get_font_names())
    fonts = [*rcParams["font.sans-serif"][:1], *(name for name in _OTHER_SCRIPTS if name in installed)]
    settings: dict[Any, Any] = {"font.sans-serif": fonts, "svg.hashsalt": path.stem}
    with warnings.catch_warnings(record=True) as caught, rc_context(settings):
        warnings.simplefilter("always")
        figure.savefig(path, bbox_inches="tight", **options)
    lacking = {match[1] for warning in caught if (match := _LACKING.match(str(warning.message)))}
    if lacking and is_svg:
        with warnings.catch_warnings(), rc_context(settings | {"svg.fonttype": "none"}):
            warnings.simplefilter("ignore")
            figure.savefig(path, bbox_inches="tight", **options)
    elif lacking:
        logger.warning(
            "%s: no font of this machine has %d of the characters, which are drawn as boxes; install a font "
            "such as Noto Sans CJK, or write an .svg",
            path.name,
            len(lacking),
        )


def _new_figure(width: float, height: float) -> "Figure":
    # The import takes a second, and most commands draw nothing.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _distinct(cells: list[Cell]) -> list[Cell]:
    return list(dict.fromkeys(cells))


def _without_formulas(name: Cell) -> str:
    """Escapes dollars: matplotlib takes text between two of them for a formula."""
    return str(name).replace("$", r"\$")


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else math.nan
