"""`allennlp elmo explain`: which words a prediction rests on."""

import argparse
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.interpret.saliency_interpreters import SaliencyInterpreter
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor

from elmo_tasks.commands.base import Verb, add_archive_argument, archive_on_device
from elmo_tasks.commands.page import page_template
from elmo_tasks.commands.staging import add_output_argument, staged_file
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.predictors.interpretation import InterpretablePredictor
from elmo_tasks.progress import progress

TEMPLATE = Path(__file__).with_name("explain.html")
# AllenNLP's simple gradient multiplies by the vector of the first word alone; so it is not the default.
METHODS = ("integrated-gradient", "simple-gradient", "smooth-gradient")


class Explain(Verb):
    """See `explanations` and `render`."""

    name = "explain"
    help = "Which words a prediction rests on."
    description = """Reads what `allennlp predict` reads, and writes JSON Lines: of each input the result, and
        of each prediction in it (an entity, a cluster; one of other tasks) the words of each text with their
        shares in its gradient, by one of AllenNLP's interpreters; the part of ELMo counts. Beside OUT, a page
        of HTML shows the words in colours."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_archive_argument(parser)
        parser.add_argument("input", metavar="IN", help="JSON Lines, as `allennlp predict` reads them")
        add_output_argument(parser, metavar="OUT", help="JSON Lines to write; the page is OUT.html")
        parser.add_argument(
            "--method", choices=METHODS, default=METHODS[0], help="the interpreter of AllenNLP"
        )
        parser.add_argument(
            "--through-elmo",
            action="store_true",
            help="take the gradient by the words themselves, through the biLM; else to ELMo's vectors",
        )
        parser.add_argument("--cuda-device", type=int, default=-1, help="number of the GPU, -1 for none")

    def run(self, arguments: argparse.Namespace) -> None:
        output: Path = arguments.output
        page = output.with_name(f"{output.name}.html")
        output.parent.mkdir(parents=True, exist_ok=True)
        with (
            staged_file(page, force=arguments.force) as html,
            staged_file(output, force=arguments.force) as path,
        ):
            predictor = _predictor(arguments.archive, archive_on_device(arguments))
            predictor.through_elmo = arguments.through_elmo
            lines = [line for _, line in read_lines(Path(arguments.input)) if line.strip()]
            bar = progress(lines, work="explain", unit="inputs")
            explained = list(explanations(predictor, bar, arguments.method))
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in explained)
            html.write_text(render(explained), encoding="utf-8")
        print(f"{output}: {len(explained):,} inputs; {page}")


def explanations(
    predictor: InterpretablePredictor, lines: Iterable[str], method: str
) -> Iterator[dict[str, Any]]:
    """
    Of each line an object: `result`, as `allennlp predict` has it; and `explanations`, of each prediction a
    list with an object for each text that the model reads: its `tokens` and their `shares`, which add up
    to 1. There are none of an input without words.

    # Raises
    `ConfigurationError`: a line that the predictor cannot read.
    """
    interpreter = SaliencyInterpreter.by_name(method)(predictor)
    for line in lines:
        content = predictor.load_line(line)
        result = predictor.predict_json(content)
        shown = [] if predictor.empty_result(content) is not None else _explain(interpreter, content)
        yield {"result": result, "explanations": shown}


def render(explained: list[dict[str, Any]]) -> str:
    """The page."""
    return page_template(TEMPLATE).render(explained=explained)


def _explain(interpreter: SaliencyInterpreter, content: JsonDict) -> list[list[dict[str, Any]]]:
    predictor = interpreter.predictor
    texts = predictor.texts(predictor._json_to_instance(content))
    return [
        [
            {"tokens": words, "shares": [_finite(share) for share in gradients[f"grad_input_{number}"]]}
            # AllenNLP counts the texts from the last one
            for number, words in zip(range(len(texts), 0, -1), texts, strict=True)
        ]
        for gradients in interpreter.saliency_interpret_from_json(content).values()
    ]


def _finite(share: float) -> float:
    """0 where all gradients of a text are, so that they have no shares."""
    return share if math.isfinite(share) else 0.0


def _predictor(name: str, archive: Archive) -> InterpretablePredictor:
    """
    # Raises
    `ConfigurationError`: the model is of a task without explanations, or an ensemble.
    """
    predictor = Predictor.from_archive(archive)
    explains = type(predictor).predictions_to_labeled_instances
    if explains is Predictor.predictions_to_labeled_instances or not hasattr(predictor._model, "embed"):
        raise ConfigurationError(
            f"{name}: found a model of the class {type(archive.model).__name__}, expected a single model of "
            "NER, SST, SNLI, SQuAD, classification or coreference"
        )
    return predictor
