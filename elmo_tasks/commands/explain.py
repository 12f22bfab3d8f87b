"""The verb `explain`: the words that a prediction rests on."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor

from elmo_tasks.commands.base import Input, ModelVerb, flag, option, positional
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.common.progress import progress
from elmo_tasks.page.templates import page_template
from elmo_tasks.pipeline.command import json_lines_file, read_file
from elmo_tasks.pipeline.explanations import METHODS, Explainer, can_explain
from elmo_tasks.pipeline.predictor import TaskPredictor, attempt, with_place

TEMPLATE = Path(__file__).with_name("explain.html")


@dataclass(frozen=True, kw_only=True)
class Explain(ModelVerb):
    name = "explain"
    help = "Which words a prediction rests on."
    description = """Reads the input of `allennlp predict`, and writes JSON Lines: for each input the result,
        and for each prediction in it (an entity, a cluster; one for other tasks) the words of each text with
        their shares in its gradient, by one of AllenNLP's interpreters; the part of ELMo counts. A page of
        HTML next to OUT shows the words in colours. An input that cannot be read ends the run; the results
        before it are written."""

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
            other = output.with_suffix(".jsonl")
            raise ConfigurationError(f"{output} is the name of a page; {other} gets one next to it")
        if self.input != "-":
            json_lines_file(self.input)  # a clear error if nothing is there
        with (
            partial_file(page, force=self.force) as html,
            partial_file(output, force=self.force) as path,
        ):
            predictor = _predictor(self.archive, self.open())
            predictor.through_elmo = self.through_elmo
            explained, problem = _explain(predictor, self.input, self.method)
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
    predictor: TaskPredictor, source: str, method: str
) -> tuple[list[dict[str, Any]], Exception | None]:
    """Returns the explanations of the inputs before one that cannot be read, and the error of that one."""
    explainer = Explainer(predictor, method)
    explained: list[dict[str, Any]] = []
    for record in progress(list(read_file(predictor, source)), work="explain", unit="inputs"):
        result = with_place(attempt(explainer, record.content), record.where)
        if isinstance(result, Exception):
            return explained, result
        explained.append(result)
    return explained, None


def render(explained: list[dict[str, Any]]) -> str:
    """Returns the page of HTML."""
    to_json = partial(json.dumps, ensure_ascii=False)
    return page_template(TEMPLATE, json=to_json).render(explained=explained)


def _predictor(name: str, archive: Archive) -> TaskPredictor:
    """Returns the predictor of an archive."""
    predictor = Predictor.from_archive(archive)
    if not can_explain(predictor):
        raise ConfigurationError(
            f"{name}: a {type(archive.model).__name__} cannot be explained, only a single model of NER, SST, "
            "SNLI, SQuAD, classification or coreference"
        )
    return predictor
