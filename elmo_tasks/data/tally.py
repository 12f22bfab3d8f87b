"""Counts of what a reader reads from a file, for its log."""

from collections import Counter, defaultdict
from logging import Logger
from pathlib import Path

from elmo_tasks.data.input_files import InputError


class Tally(Counter[str]):
    """
    Counts by the words that the log has for them, in the order of their first use.

    `tally["entities: PER"]` counts a part of the entities, which the log has as `3 entities (LOC 1, PER 2)`.
    With `strict`, an oddity is an error.
    """

    def __init__(self, path: str | Path, *, strict: bool = False) -> None:
        super().__init__()
        self.path, self.strict = path, strict
        self._first_oddities: dict[str, InputError] = {}
        self._first_annotation: tuple[int, str] | None = None

    def check_annotated_alike(self, line: int, annotation: str) -> None:
        """Raises `InputError` unless a record is annotated as the first one, such as with "no clusters"."""
        first_line, first = self._first_annotation = self._first_annotation or (line, annotation)
        if annotation != first:
            problem = f"the record has {annotation}, but line {first_line} has {first}"
            raise InputError(problem, where=self.path, line=line)

    def count_oddity(self, kind: str, line: int | None, problem: str, number: int = 1) -> None:
        """Counts what is read, or left out, although it is odd; a warning has the first of each kind."""
        error = InputError(problem, where=self.path, line=line)
        if self.strict:
            raise error
        self._first_oddities.setdefault(kind, error)
        self[kind] += number

    def log(self, logger: Logger) -> None:
        """Logs the counts, and a warning for each kind of oddity."""
        for kind, error in self._first_oddities.items():
            logger.warning("%s (%s in this file: %d)", error, kind, self[kind])
        if self:
            logger.info("%s: %s", self.path, self)

    def __str__(self) -> str:
        totals: Counter[str] = Counter()
        parts: dict[str, list[str]] = defaultdict(list)
        for name, count in self.items():
            whole, _, part = name.partition(": ")
            totals[whole] += count
            if part:
                parts[whole].append(f"{part} {count}")
        return ", ".join(
            f"{count} {name}" + (f" ({', '.join(sorted(parts[name]))})" if name in parts else "")
            for name, count in totals.items()
        )
