"""`allennlp elmo explain`: which words a prediction rests on."""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor

from elmo_tasks.commands.base import (
    Source,
    Verb,
    add_archive_argument,
    add_device_argument,
    archive_on_device,
)
from elmo_tasks.commands.staging import add_output_argument, staged_file
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.page.templates import page_template
from elmo_tasks.predictors.command import load_lines, open_lines
from elmo_tasks.predictors.interpretation import METHODS, Explainer, InterpretablePredictor, can_explain

TEMPLATE = Path(__file__).with_name("explain.html")


class Explain(Verb):
    """See `Explainer` and `render`."""

    name = "explain"
    help = "Which words a prediction rests on."
    description = """Reads what `allennlp predict` reads, and writes JSON Lines: of each input the result, and
        of each prediction in it (an entity, a cluster; one of other tasks) the words of each text with their
        shares in its gradient, by one of AllenNLP's interpreters; the part of ELMo counts. Beside OUT, a page
        of HTML shows the words in colours. What comes before an input that cannot be read is kept."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_archive_argument(parser)
        parser.add_argument(
            "input", type=Source, metavar="IN", help="JSON Lines, as `allennlp predict` reads them"
        )
        add_output_argument(parser, metavar="OUT", help="JSON Lines to write; the page is OUT.html")
        parser.add_argument(
            "--method", choices=METHODS, default=METHODS[0], help="the interpreter of AllenNLP"
        )
        parser.add_argument(
            "--through-elmo",
            action="store_true",
            help="take the gradient at the words, through the biLM (default: at the vectors of ELMo)",
        )
        add_device_argument(parser)

    def outputs(self, arguments: argparse.Namespace) -> list[Path]:
        return [arguments.output, _page(arguments.output)]

    def run(self, arguments: argparse.Namespace) -> None:
        output: Path = arguments.output
        page = _page(output)
        if arguments.input != "-":
            cached_path(arguments.input)  # an error of its own where nothing is there
        with (
            staged_file(page, force=arguments.force) as html,
            staged_file(output, force=arguments.force) as path,
        ):
            predictor = _predictor(arguments.archive, archive_on_device(arguments))
            predictor.through_elmo = arguments.through_elmo
            inputs = list(load_lines(predictor, open_lines(arguments.input), arguments.input))
            explained, problem = _explain(Explainer(predictor, arguments.method), inputs)
            lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in explained)
            path.write_text("".join(lines), encoding="utf-8")
            html.write_text(render(explained), encoding="utf-8")
        print(f"{output}: {len(explained):,} inputs; {page}")
        if problem is not None:
            raise problem


def _page(output: Path) -> Path:
    return output.with_name(f"{output.name}.html")


def _explain(
    explainer: Explainer, inputs: list[JsonDict]
) -> tuple[list[dict[str, Any]], ConfigurationError | ElmoError | None]:
    """What is explained, up to an input that cannot be read, and what is wrong with that one."""
    explained: list[dict[str, Any]] = []
    try:
        explained.extend(map(explainer, progress(inputs, work="explain", unit="inputs")))
    except (ConfigurationError, ElmoError) as error:
        return explained, error
    return explained, None


def render(explained: list[dict[str, Any]]) -> str:
    """The page."""
    to_json = partial(json.dumps, ensure_ascii=False)
    return page_template(TEMPLATE, json=to_json).render(explained=explained)


def _predictor(name: str, archive: Archive) -> InterpretablePredictor:
    """
    # Raises
    `ConfigurationError`: the model is of a task without explanations, or an ensemble.
    """
    predictor = Predictor.from_archive(archive)
    if not can_explain(predictor):
        raise ConfigurationError(
            f"{name}: found a model of the class {type(archive.model).__name__}, expected a single model of "
            "NER, SST, SNLI, SQuAD, classification or coreference"
        )
    return predictor
