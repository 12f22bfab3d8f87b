"""The pages of results in docs/, made of `results_pages` and the CSV files of docs/results/."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, combinations
from pathlib import Path
from statistics import mean
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.comparison import ELMO_PART, EPOCH
from benchmarks.results import COLUMNS, PEER, Results, p_of_one, read_scores, shown_p
from benchmarks.results import shown as two_digits
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.table import Cell, Table, shown
from elmo_tasks.data.input_files import InputError

USUAL_VERSION = "0.4.0"
"""The version of most runs; the pages name the others'."""
_VERSION = re.compile(r"elmo_tasks ([\d.]+\d)")


class PageTables:
    """
    A line replaces a table whose file does not exist yet, and below scores of another
    version than the usual one, a line names their rows.

    # Parameters

    results : folder of the CSV files and figures.
    commands : of the experiments, by their names.
    """

    def __init__(self, *, results: Path, commands: Mapping[str, str]) -> None:
        self._results, self._commands = results, commands
        self._whole_commands: dict[str, str] = {}

    def command(self, name: str) -> str:
        """
        Returns a link to the command of an experiment, in which DATA and so on are folders; of one like
        another, the part of its own.
        """
        command = re.sub(r"[$](?=[A-Z])", "", self._commands[name]).strip()
        if "python -m" not in command:
            return f"`{command}`"
        self._whole_commands[name] = command
        return f"[command](#{name})"

    def commands(self) -> str:
        """Returns the commands that `command` has linked, as a section."""
        shown_commands = (
            f"### {name}\n\n```text\n{text}\n```\n" for name, text in self._whole_commands.items()
        )
        return "\n".join(["\n## Commands\n", *shown_commands]) if self._whole_commands else ""

    def number(self, name: str) -> Cell:
        """One of numbers.csv."""
        return self._values("numbers")[name]

    def published(self, name: str) -> Cell:
        """One of published.csv."""
        return self._values("published")[name]

    def cell(self, name: str, column: str, **row: Cell) -> str:
        """
        One cell of a file, of the only row that has `row` in the columns of these names.

        # Raises
        `KeyError`: no row has, or several have.
        """
        rows = Table.read(self._path(name))
        for column_of_row, value in row.items():
            rows = rows.where(column_of_row, value)
        if len(rows.rows) != 1:
            raise KeyError(f"{name}, {row}")
        return _cell(rows.column(column)[0])

    def ratio(self, name: str, metric: str, system: str, baseline: str) -> str:
        """Returns the median ratio of two systems of `Results`, with its range if there are several seeds."""
        ratios = self._rows(name).ratios([(system, baseline)], of=metric)
        return str(ratios.column("ratio (range)")[0])

    def rest(self, name: str, baseline: str = "peer-our-elmo") -> str:
        """Returns what an epoch takes apart from our ELMo's calls, as a share of an epoch of `baseline`."""
        rows, prefix = self._rows(name), "peer-our-elmo, peer-elmo in turn, original: "
        ours = [rows.values("peer-our-elmo", prefix + metric)[0] for metric in (EPOCH, ELMO_PART)]
        return f"{(ours[0] - ours[1]) / rows.values(baseline, prefix + EPOCH)[0]:.0%}"

    def score(self, name: str, system: str, metric: str = "") -> str:
        """Mean and standard deviation of a system."""
        return str(read_scores(self._path(name), metric)[system])

    def way_to(self, name: str, system: str, baseline: str, metric: str, limit: str) -> str:
        """Returns which part of the way from the system `baseline` to the file `limit` a system goes."""
        of_systems = read_scores(self._path(name), metric)
        (of_limit,) = read_scores(self._path(limit), metric).values()
        return of_systems[system].gain(of_systems[baseline], limit=of_limit.mean)

    def scores(
        self,
        name: str,
        systems: Mapping[str, str],
        metric: str = "",
        published: Mapping[str, str] | None = None,
        first: Mapping[str, Mapping[str, str]] | None = None,
    ) -> str:
        """
        A row a system: mean and standard deviation, number of seeds, the share of the first system's error
        that is gone, and the p value.

        # Parameters

        systems : their names in the file, and on the page; those that the file has not are left out.
        published : for each system, what published.csv calls its error reduction.
        first : other files and their systems, whose rows come first.
        """
        parts = [*(first or {}).items(), (name, systems)]
        names = list(dict.fromkeys(file for file, _ in parts))
        if missing := self._missing(names):
            return missing
        rows = []
        versions: dict[str, set[str]] = {}
        for file, titles in parts:
            of_systems, runs = read_scores(self._path(file), metric), Table.read(self._path(file))
            for system, title in titles.items():
                if system in of_systems:
                    rows.append((system, title, of_systems[system]))
                    versions[title] = _versions(runs, system)
        table = Table(
            ("", metric or "score", "seeds", "error reduction", "p", *["published"] * bool(published))
        )
        for i, (system, title, score) in enumerate(rows):
            top = rows[0][-1]
            gain: list[Cell] = [score.gain(top), score.shown_p(top)] if i else ["", ""]
            of_paper: list[Cell] = (
                [self.published(published[system]) if system in published else ""] if published else []
            )
            table.add(title, str(score), score.runs, *gain, *of_paper)
        return markdown(table) + _other_versions(versions)

    def summary(self, tasks: Mapping[str, tuple[str, str, str, str]]) -> str:
        """
        Returns a row a task: its baseline, its score with ELMo, and the published error reduction.

        # Parameters

        tasks : for each title, the data, the file, the metric, and the name of its error reduction in
            published.csv.
        """
        table = Table(
            (
                "task",
                "data",
                "score",
                "without ELMo",
                "with ELMo",
                "seeds",
                "error reduction",
                "p",
                "published reduction",
            )
        )
        versions: dict[str, set[str]] = {}
        for title, (data, name, metric, published) in tasks.items():
            of_systems = read_scores(self._path(name), metric)
            without, with_elmo = of_systems["ours"], of_systems["elmo"]
            seeds = " and ".join(dict.fromkeys(str(score.runs) for score in (without, with_elmo)))
            cells: list[Cell] = [with_elmo.gain(without), with_elmo.shown_p(without)]
            table.add(
                title, data, metric, str(without), str(with_elmo), seeds, *cells, self.published(published)
            )
            versions[title] = _versions(Table.read(self._path(name)), "ours", "elmo")
        return markdown(table) + _other_versions(versions)

    def grid(
        self,
        files: Mapping[str, str],
        variants: Mapping[str, str],
        baseline: str,
        metric: str = "",
        published: Sequence[str] = (),
    ) -> str:
        """
        A row a variant and a column a file: mean and standard deviation, with a star where the difference to
        the variant `baseline` is shown.

        # Parameters

        files : the titles of the columns and their files.
        variants : their names in the files, and on the page.
        published : titles that get one more column, with the `TITLE, VARIANT` of published.csv.
        """
        head, columns = [""], []
        for title, name in files.items():
            if self._has(name):
                of_systems = read_scores(self._path(name), metric)
                runs = sorted({score.runs for score in of_systems.values()})
                head.append(f"{title}, {' or '.join(map(str, runs))} seed{'s' if runs != [1] else ''}")
                columns.append(
                    [
                        of_systems[v].starred(of_systems.get(baseline)) if v in of_systems else ""
                        for v in variants
                    ]
                )
        for title in published:
            head.append(f"{title}, published")
            columns.append([str(self._values("published").get(f"{title}, {v}", "")) for v in variants])
        table = Table(tuple(head), list(zip(variants.values(), *columns, strict=True)))
        return markdown(table) + self._of_other_versions(files) + self._missing(files.values())

    def samples(self, files: Mapping[str, str]) -> str:
        """Figure 1: for each file and size of the training data, without ELMo, with it, and the p value."""
        columns = (
            "",
            "training instances",
            "without ELMo",
            "with ELMo",
            "seeds",
            "p",
            "epochs to the best without",
        )
        table = Table((*columns, "with", "with, to the best of without"))
        for title, name in files.items():
            if not self._has(name):
                continue
            of_systems = read_scores(self._path(name))
            rows = Table.read(self._path(name))
            for size in dict.fromkeys(rows.column("training instances")):
                without, with_elmo = (of_systems[f"{size} {kind}"] for kind in ("without", "with"))
                cells: list[Cell] = [str(without), str(with_elmo), with_elmo.runs, with_elmo.shown_p(without)]
                of_size = rows.where("training instances", size)
                best = [*of_size.column("epochs to best"), of_size.column("epochs to best without ELMo")[1]]
                table.add(title, f"{size:,}", *cells, *(f"{epochs:.1f}" if epochs else "" for epochs in best))
        return markdown(table) + self._of_other_versions(files) + self._missing(files.values())

    def ensembles(self, files: Mapping[str, str], metrics: Sequence[str]) -> str:
        """The members, their ensemble, and the p value that the members' mean is the ensemble's score."""
        table = Table(("", "members", "seeds", "best member", "ensemble", "error reduction", "p"))
        for (title, name), metric in zip(files.items(), metrics, strict=True):
            if self._has(name):
                of_systems = read_scores(self._path(name), metric)
                members, together = of_systems["member"], of_systems["ensemble"]
                values = list(self._rows(name).values("member", metric).values())
                cells: list[Cell] = [
                    str(members),
                    members.runs,
                    f"{max(values):.1f}",
                    str(together),
                    together.gain(members),
                ]
                table.add(title, *cells, shown_p(p_of_one(values, together.mean)))
        shown_table = markdown(table) if table.rows else ""
        return shown_table + self._of_other_versions(files) + self._missing(files.values())

    def curve(self, name: str, systems: Mapping[str, str]) -> str:
        """
        Shows if more epochs help: the best score until a quarter, a half, three quarters and the end of
        the epochs, as the mean over the seeds.
        """
        if missing := self._missing([name]):
            return missing
        rows = Table.read(self._path(name))
        last = max(map(int, rows.column("epoch")))  # type: ignore[arg-type]
        ends = [max(1, round(last * quarter / 4)) for quarter in (1, 2, 3, 4)]
        table = Table(("epochs", *map(str, ends)))
        for system, title in systems.items():
            of_system = rows.where("system", system)
            best_until = [
                list(
                    accumulate(
                        (float(str(cell)) for cell in of_system.where("seed", seed).column("score")), max
                    )
                )
                for seed in dict.fromkeys(of_system.column("seed"))
            ]
            if best_until:
                # A run may have fewer epochs than the longest one.
                means = (mean(best[:end][-1] for best in best_until) for end in ends)
                table.add(title, *(f"{score:.1f}" for score in means))
        return markdown(table)

    def means(self, name: str, *metrics: str) -> str:
        """Returns rows of `Results` as a table: a row a system that has a metric, a column a metric."""
        if missing := self._missing([name]):
            return missing
        return markdown(self._rows(name).grid(metrics)) + self._of_other_versions({"": name})

    def words(self, name: str) -> str:
        """Returns the results of `allennlp elmo intrinsic`: a row the vectors, a column a test."""
        if missing := self._missing([name]):
            return missing
        table = Table.read(self._path(name))
        chosen = table.where("measure", "spearman", "3CosAdd").where(
            "section", None, "semantic", "syntactic", "all"
        )
        tests = dict.fromkeys(zip(chosen.column("test"), chosen.column("section"), strict=True))
        heads = [str(test) if section is None else f"{test}: {section}" for test, section in tests]
        shown_table = Table(("vectors", *heads))
        for vectors in dict.fromkeys(chosen.column("vectors")):
            own = chosen.where("vectors", vectors)
            scores = [
                own.where("test", test).where("section", section).column("score") for test, section in tests
            ]
            shown_table.add(vectors, *(f"{of_test[0]:.3f}" if of_test else "" for of_test in scores))
        return markdown(shown_table) + self._of_other_versions({"": name})

    def table(self, files: str | Mapping[str, str]) -> str:
        """
        A file, with rows of `Results` as ratios, or as means where no ratio exists; or several
        files as one, with their titles before each row.
        """
        named = {"": files} if isinstance(files, str) else files
        tables: dict[tuple[str, ...], Table] = {}
        for title, name in named.items():
            for table in self._tables(name) if self._has(name) else ():
                columns = table.columns if title == "" else ("", *table.columns)
                together = tables.setdefault(columns, Table(columns))
                for row in table.rows:
                    together.add(*([] if title == "" else [title]), *row)
        shown_tables = "\n".join(map(markdown, tables.values()))
        return shown_tables + self._of_other_versions(named) + self._missing(named.values())

    def side_by_side(self, files: Mapping[str, str]) -> str:
        """A row a metric, and a column a file, by its title: the values of rows of `Results` of one run."""
        if missing := self._missing(files.values()):
            return missing
        tables = [Table.read(self._path(name)) for name in files.values()]
        of_files = [dict(zip(rows.column("metric"), rows.column("value"), strict=True)) for rows in tables]
        table = Table(("", *files))
        for metric in dict.fromkeys(metric for values in of_files for metric in values):
            of_metric = (values.get(metric) for values in of_files)
            table.add(metric, *(two_digits(cell) if isinstance(cell, float) else cell for cell in of_metric))
        return markdown(table) + self._of_other_versions(files)

    def linked(self, name: str, text: str) -> str:
        """A link to a table that is too large for the page."""
        if not self._has(name):
            return self._missing([name])
        return f"[{text}]({self._path(name).name})"

    def figure(self, name: str, title: str) -> str:
        """An SVG file; nothing where it is not there yet."""
        path = self._results / f"{name}.svg"
        return f"![{title}]({path.name})" if path.exists() else ""

    def _rows(self, name: str) -> Results:
        """Returns the rows of a file, which has one task."""
        (task,) = set(map(str, Table.read(self._path(name)).column("task")))
        return Results(task, self._path(name), keep=True)

    def _tables(self, name: str) -> list[Table]:
        """Those that show a file."""
        table = Table.read(self._path(name))
        if table.columns != COLUMNS:
            indices = [i for i, column in enumerate(table.columns) if column != "source"]
            head, *rows = (tuple(row[i] for i in indices) for row in (table.columns, *table.rows))
            return [Table(tuple(map(str, head)), rows)]
        tables = []
        for task in dict.fromkeys(map(str, table.column("task"))):
            results = Results(task, self._path(name), keep=True)
            systems = list(dict.fromkeys(map(str, table.where("task", task).column("system"))))
            pairs = [pair for pair in combinations(systems, 2) if pair[1].startswith(PEER)]
            # Measurements have a unit.
            ratios = results.ratios(pairs, of=", ")
            without_ratio = [metric for metric in results.metrics() if metric not in ratios.column("metric")]
            if len(systems) == 2 and ratios.rows:
                grid = results.grid(without_ratio)
                tables += [
                    Table(
                        ("metric", *systems, "ratio (range)"),
                        [(row[0], row[2], row[4], row[5]) for row in ratios.rows],
                    ),
                    Table(
                        ("metric", *map(str, grid.column("system"))),
                        list(zip(without_ratio, *(row[1:] for row in grid.rows), strict=True)),
                    ),
                ]
            else:
                columns = (*ratios.columns[:4], "median of it", "ratio (range)")
                tables.append(Table(columns, [row[:6] for row in ratios.rows]))
                tables.append(results.grid(without_ratio) if len(systems) > 1 else results.means())
        return [part for part in tables if part.rows and len(part.columns) > 1]

    def _of_other_versions(self, files: Mapping[str, str]) -> str:
        """Which files, by their titles, are of runs of another version than the usual; empty if none is."""
        return _other_versions(
            {
                title: _versions(Table.read(self._path(name)))
                for title, name in files.items()
                if self._has(name)
            }
        )

    def _missing(self, names: Iterable[str]) -> str:
        """Which files are not there yet; empty if all are."""
        missing = [name for name in names if not self._has(name)]
        return f"\nNot measured yet: {', '.join(f'`{name}`' for name in missing)}.\n" if missing else ""

    def _values(self, name: str) -> dict[Cell, Cell]:
        table = Table.read(self._path(name))
        return dict(zip(table.column("name"), table.column("value"), strict=True))

    def _has(self, name: str) -> bool:
        return self._path(name).exists()

    def _path(self, name: str) -> Path:
        return self._results / f"{name}.csv"


def _versions(runs: Table, *systems: str) -> set[str]:
    """Returns the versions of the runs, or of the runs of these systems."""
    chosen = runs.where("system", *systems) if systems and "system" in runs.columns else runs
    return {number for row in chosen.rows for cell in row for number in _VERSION.findall(str(cell))}


def _other_versions(versions: Mapping[str, set[str]]) -> str:
    """Returns a line for each unusual version, with the titles that have it, unless all have the same."""
    all_equal = len(set(map(frozenset, versions.values()))) == 1
    of_version: dict[str, list[str]] = {}
    for title, numbers in versions.items():
        for number in numbers - {USUAL_VERSION}:
            of_version.setdefault(number, []).append(title)
    return "".join(
        f"\nRuns of version {number}{'' if all_equal else ': ' + '; '.join(titles)}.\n"
        for number, titles in sorted(of_version.items())
    )


def markdown(table: Table) -> str:
    """Returns a table in Markdown, its numbers with at most four decimals."""
    rows = ([_cell(cell) for cell in row] for row in (table.columns, *table.rows))
    head, *body = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([head, "| --- " * len(table.columns) + "|", *body, ""])


def _cell(cell: Cell) -> str:
    if isinstance(cell, float) and 0 < abs(cell) < 0.001:
        return f"{cell:.1e}"
    if isinstance(cell, float) and len(str(cell).partition(".")[2]) > 4:
        return shown(cell)
    return "" if cell is None else str(cell).replace("|", "\\|")


PROJECT = Path(__file__).parent.parent
DOCS, RESULTS = PROJECT / "docs", PROJECT / "docs/results"
TEMPLATES = Path(__file__).with_name("results_pages")
"""A template a page, at the page's path within docs/."""
_NO_PROSE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|`[^`]*`|\[[^\]]*\]\([^)]*\)", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.,-])[\d.,]*\d%?")


def typed_numbers(template: str) -> list[tuple[int, str]]:
    """The decimal numbers and percentages that a template has by hand, each with its line."""
    prose = _NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), template)
    return [
        (line, match[0])
        for line, text in enumerate(prose.splitlines(), start=1)
        for match in _NUMBER.finditer(text)
        # A version has more than one point.
        if match[0].endswith("%") or match[0].count(".") == 1
    ]


def templates() -> dict[Path, Path]:
    """Returns the template of each page of docs/."""
    return {DOCS / path.relative_to(TEMPLATES): path for path in sorted(TEMPLATES.rglob("*.md"))}


def rendered(results: Path, commands: Mapping[str, str], template: Path) -> str:
    """
    Returns the page of a template.

    # Raises
    `InputError`: a number is typed by hand; what a table needs is in no file, or not as it should be.
    """
    for line, number in typed_numbers(template.read_text(encoding="utf-8")):
        raise InputError(f"{number} is typed; take it from a CSV file", where=template, line=line)
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    tables = PageTables(results=results, commands=commands)
    calls: dict[str, Any] = {"FINETUNED": "the same, the biLM fine-tuned on the task's text"}
    calls |= {name: getattr(tables, name) for name in dir(tables) if not name.startswith("_")}
    try:
        text = environment.get_template(template.name).render(calls)
    except KeyError as error:
        raise InputError(f"no file has {error}", where=template) from error
    return re.sub(r"\n{3,}", "\n\n", text + tables.commands())


def write_pages(results: Path, commands: Mapping[str, str]) -> None:
    """Writes docs/results.md, and the pages of docs/results/."""
    for page, template in templates().items():
        with atomic_file(page) as file:
            file.write(rendered(results, commands, template).encode())
        print(page)
