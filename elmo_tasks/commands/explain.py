"""The verb `explain`: the words that a prediction rests on."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor

from elmo_tasks.commands.base import Input, ModelVerb, flag, option, positional
from elmo_tasks.commands.staging import staged_file
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.page.templates import page_template
from elmo_tasks.predictors.command import json_lines_file, load_file
from elmo_tasks.predictors.interpretation import METHODS, Explainer, InterpretablePredictor, can_explain

TEMPLATE = Path(__file__).with_name("explain.html")


@dataclass(frozen=True, kw_only=True)
class Explain(ModelVerb):
    name = "explain"
    help = "Which words a prediction rests on."
    description = """Reads the input of `allennlp predict`, and writes JSON Lines: for each input the result,
        and for each prediction in it (an entity, a cluster; one for other tasks) the words of each text with
        their shares in its gradient, by one of AllenNLP's interpreters; the part of ELMo counts. Beside OUT,
        a page of HTML shows the words in colours. An input that cannot be read ends the work; the results
        before it, if any, are written."""

    input: Input = positional("IN", "JSON Lines, as `allennlp predict` reads them")
    output: Path = positional("OUT", "JSON Lines to write; the page is OUT.html")
    force: bool = flag("overwrite OUT")
    method: str = option("the interpreter of AllenNLP", METHODS[0], choices=METHODS)
    through_elmo: bool = flag(
        "take the gradient at the words, through the biLM (default: at the vectors of ELMo)"
    )

    @classmethod
    def outputs(cls, output: Path) -> list[Path]:
        return [output, _page(output)]

    def run(self) -> None:
        output = self.output
        page = _page(output)
        if output.suffix.lower() in (".html", ".htm"):
            expected = f"{output.with_suffix('.jsonl')}, beside which the page is written"
            raise ConfigurationError(f"{output}: found the name of a page, expected {expected}")
        if self.input != "-":
            json_lines_file(self.input)  # a clear error if nothing is there
        with (
            staged_file(page, force=self.force) as html,
            staged_file(output, force=self.force) as path,
        ):
            predictor = _predictor(self.archive, self.open())
            predictor.through_elmo = self.through_elmo
            inputs = list(load_file(predictor, self.input))
            explained, problem = _explain(Explainer(predictor, self.method), inputs)
            if problem is not None and not explained:
                raise problem
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
    """Returns the explanations of the inputs before one that cannot be read, and the error of that one."""
    explained: list[dict[str, Any]] = []
    try:
        explained.extend(map(explainer, progress(inputs, work="explain", unit="inputs")))
    except (ConfigurationError, ElmoError) as error:
        return explained, error
    return explained, None


def render(explained: list[dict[str, Any]]) -> str:
    """Returns the page of HTML."""
    to_json = partial(json.dumps, ensure_ascii=False)
    return page_template(TEMPLATE, json=to_json).render(explained=explained)


def _predictor(name: str, archive: Archive) -> InterpretablePredictor:
    """Returns the predictor of an archive."""
    predictor = Predictor.from_archive(archive)
    if not can_explain(predictor):
        raise ConfigurationError(
            f"{name}: found a model of the class {type(archive.model).__name__}, expected a single model of "
            "NER, SST, SNLI, SQuAD, classification or coreference"
        )
    return predictor
