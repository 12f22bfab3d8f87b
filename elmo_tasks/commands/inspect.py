"""`allennlp elmo inspect`: what a file is, as the readers of the tasks read it."""

import json
import shlex
from dataclasses import asdict, dataclass
from typing import Any

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import Source, Verb, flag, option, positional
from elmo_tasks.data.inspection import Inspection, inspect, sample_of
from elmo_tasks.data.json_lines import shorten

CONFIGS = {
    "coref": "coref_elmo",
    "srl": "srl_elmo",
    "sst": "sst_elmo",
    "squad": "squad_elmo",
    "snli": "snli_elmo",
    "ner": "ner_elmo",
    "classification": "agnews_elmo",
}
"""The tasks, and a config of each; those that read fewer files come first."""
OVERRIDES: dict[str, dict[str, Any]] = {
    "classification": {f"dataset_reader.{key}": None for key in ("label_names", "columns")}
    | {"dataset_reader.format": "auto"}
}
"""The keys that those configs have, and other data do not."""
TASKS = {name: name for name in CONFIGS} | {"classifier": "classification"}
_SHOWN = 20
_NOTES = 3
"""Files that are described; the last description is of all files."""


@dataclass(frozen=True, kw_only=True)
class Inspect(Verb):
    """The verb `inspect`; see `data.inspection`."""

    name = "inspect"
    help = "The format of a data file, and its reader block."
    description = """Reads data with the readers of the tasks, and tells which of them fit: the format, the
        encoding, how many sentences, tokens, and labels of each class there are, odd places with file and
        line, and the dataset_reader block to paste into a config. It writes nothing."""

    path: Source = positional("PATH", "file, folder, pattern, archive or URL, as in train_data_path")
    task: str | None = option("the task (default: all that fit)", choices=TASKS)
    json: bool = flag("print one JSON object")

    def run(self) -> None:
        sample = sample_of(self.path)
        tasks = list(CONFIGS) if self.task is None else [TASKS[self.task]]
        fits: list[Inspection] = []
        problems: dict[str, str] = {}
        for task in tasks:
            found, problem = inspect(task, self.path, sample)
            fits += found
            if not found:
                problems[task] = problem
        if not fits:
            reasons = "; ".join(
                f"{task}: {problem if self.task else shorten(problem, 120)}"
                for task, problem in problems.items()
            )
            raise ConfigurationError(f"{self.path}: found no format of {', '.join(tasks)} ({reasons})")
        # A stable sort: labels say more than the order of the tasks.
        fits.sort(key=lambda each: not each.labels)
        print(
            json.dumps(_object(fits), ensure_ascii=False, indent=2)
            if self.json
            else "\n".join([*description(self.path, fits[0]), *_blocks(self.path, fits)])
        )


def _object(fits: list[Inspection]) -> dict[str, Any]:
    first, *others = fits
    also = [{"task": each.task, "dataset_reader": each.dataset_reader} for each in others]
    return {**asdict(first), "also": also}


def description(path: str, found: Inspection) -> list[str]:
    """Returns lines that tell what the data are."""
    labels = list(found.labels.items())
    shown = ", ".join(f"{label} {count:,}" for label, count in labels[:_SHOWN])
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return [
        f"{path}: {found.task}, format {found.format}, {found.encoding}",
        f"  {found.records:,} records, {found.tokens:,} tokens",
        f"  labels: {shown}{more}" if labels else "  no labels: it serves predictions",
        f"  longest: record {found.longest_record:,} with {found.longest:,} tokens",
        *(f"  {note}" for note in found.notes[-_NOTES:]),
        *(f"  odd: {warning}" for warning in found.warnings),
    ]


def _blocks(path: str, fits: list[Inspection]) -> list[str]:
    """Returns lines with the blocks of the config, and the command that trains by the first."""
    first, *others = fits
    keys = {f"dataset_reader.{key}": value for key, value in first.dataset_reader.items() if key != "type"}
    paths = {"train_data_path": path, "validation_data_path": "DEV"}
    pairs = {"model.pairs": True} if "sentence2" in first.dataset_reader else {}
    overrides = json.dumps(OVERRIDES.get(first.task, {}) | keys | pairs | paths, ensure_ascii=False)
    config = f"training_configs/{CONFIGS[first.task]}.jsonnet"
    return [
        "",
        f"dataset_reader: {json.dumps(first.dataset_reader, ensure_ascii=False, indent=2)}",
        *(f"also possible: {json.dumps(each.dataset_reader, ensure_ascii=False)}" for each in others),
        "",
        f"allennlp train {config} -s runs/{first.task} --overrides {shlex.quote(overrides)}",
    ]
