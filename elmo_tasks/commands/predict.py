"""The verbs `predict`, `squad-predictions` and `explain`: predictions, and the words that they rest on."""

import json
import os
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.archives.opening import local_archive, packed_archive
from elmo_tasks.commands.base import (
    Gpu,
    Input,
    ModelVerb,
    Positive,
    Verb,
    archive_argument,
    device_option,
    flag,
    option,
    positional,
    titled,
)
from elmo_tasks.commands.partial_outputs import (
    RayArguments,
    RunArguments,
    engine_of,
    partial_file,
    run_folder,
)
from elmo_tasks.common.progress import progress
from elmo_tasks.data.formats.questions import read_good_questions
from elmo_tasks.data.input_files import input_files
from elmo_tasks.jobs.engines import LocalEngine, run_job
from elmo_tasks.jobs.locations import input_sources, texts_among
from elmo_tasks.jobs.predict import PredictJob
from elmo_tasks.jobs.runs import Reading, Settings
from elmo_tasks.jobs.sinks import JsonLinesSink
from elmo_tasks.page.templates import template
from elmo_tasks.pipeline.command import predictor_arguments
from elmo_tasks.pipeline.csv_output import DELIMITERS
from elmo_tasks.pipeline.explanations import METHODS, Explainer, can_explain
from elmo_tasks.pipeline.predictor import InputRecord, attempt, value_of, with_place
from elmo_tasks.pipeline.stream import json_records, open_lines, predict
from elmo_tasks.pipeline.trained import task_predictor
from elmo_tasks.squad.reader import SquadReader


class Predict(Verb):
    name = "predict"
    help = "Predictions of an archive, to JSON Lines."
    description = """Reads JSON Lines or Parquet, a row an object: a file, folder, pattern or URL, or - for
        stdin. Writes what `allennlp predict` writes, line for line. OUT appears when it is complete. A
        line that cannot be predicted ends the run, and OUT has the results before that line; fix it, and
        --resume continues. Until OUT is complete, the work is in OUT.partial. With --engine ray, IN and OUT
        may be at s3:// or gs://."""

    archive: Input = archive_argument()
    input: Input = positional("IN", "what to predict, an object a line")
    output: str = positional("OUT", "JSON Lines to write")
    batch_size: Positive | None = option("the most lines to predict together (default: some hundreds)")
    device: Gpu = device_option()
    predictor: str | None = option("the name of a predictor, instead of the task's")
    predictor_args: str = option("its parameters, as JSON", "")
    min_probability: float = option(
        "leave out labels, entities and answers with a lower probability", 0.0, metavar="P"
    )
    overrides: str = option("overrides of the archive's config, as JSON", "")
    mode: RunArguments
    ray: RayArguments = titled("with --engine ray")

    def run(self) -> None:
        engine = engine_of(self.mode, self.ray, self.output)
        here = isinstance(engine, LocalEngine)
        predictor_args = predictor_arguments(self.predictor_args)
        source, output = self.input, self.output
        if Path(output).suffix.lower() in DELIMITERS:
            remedy = f"`allennlp predict ARCHIVE IN --output-file {output}` makes tables"
            raise ConfigurationError(f"{output}: this command writes JSON Lines; {remedy}")
        if here:
            sources = [source] if source == "-" else list(map(str, input_files(source)))
        else:
            sources = input_sources(source)
        sources = texts_among(sources, source, [output, f"{output}.partial"])
        with run_folder(output, self.mode) as folder:
            if folder is None:
                return
            # Every worker gets the file.
            archive = (local_archive if here else packed_archive)(self.archive)
            settings: Settings = {
                "the archive": _archive_digest(archive),
                "--predictor": self.predictor,
                "--predictor-args": self.predictor_args,
                "--min-probability": str(self.min_probability),
                "--overrides": self.overrides,
            }
            job = PredictJob(
                archive=self.archive if here else archive.read_bytes(),
                overrides=self.overrides,
                predictor=self.predictor,
                predictor_args=predictor_args,
                min_probability=self.min_probability,
                batch_size=self.batch_size,
                cuda_device=self.device,
                reading=Reading(os.getcwd(), objects=True, multiple=self.batch_size or 1),
                sink=JsonLinesSink(folder, output),
            )
            size = self.ray.shard_bytes
            run = run_job(job, engine, name="predict", sources=sources, settings=settings, shard_bytes=size)
        shards = "" if here else f", of {len(run.shards):,} shards"
        print(f"{output}: {run.total('sentences'):,} lines{shards}")


def _archive_digest(archive: Path) -> str:
    digest = blake2b(digest_size=16)
    if archive.is_dir():
        for path in sorted(archive.iterdir()):
            digest.update(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    else:
        digest.update(archive.read_bytes())
    return digest.hexdigest()


class SquadPredictions(ModelVerb):
    name = "squad-predictions"
    help = "Answers in SQuAD's official format."
    description = """Writes one JSON object, {"id": "answer", ...}, as the official scripts evaluate-v1.1.py
        and evaluate-v2.0.py read it, and `python -m elmo_tasks.squad.score DATA OUT`. The answers in DATA are
        not read, and may be missing."""

    input: Input = positional("DATA", "SQuAD's JSON: a file, folder, pattern or URL")
    output: Path = positional("OUT", "JSON file to write")
    force: bool = flag("overwrite OUT")
    batch_size: Positive = option("questions in a batch", 45)

    def run(self) -> None:
        with partial_file(self.output, force=self.force) as path:
            predictor = task_predictor(self.open())
            reader = predictor._dataset_reader
            if not isinstance(reader, SquadReader):
                raise ConfigurationError(
                    f"{self.archive}: its dataset reader is {type(reader).__name__}, not elmo_squad"
                )
            instances = [
                reader.text_to_instance(question.text, question.passage, id=question.id)
                for question in read_good_questions(self.input, answers=False)
            ]
            answers: dict[str, str] = {}

            def keep(record: InputRecord, result: JsonDict) -> None:
                answers[result["id"]] = result["answer"]

            bar = progress(instances, work="squad-predictions", unit="questions")
            predict(map(InputRecord, bar), predictor, keep, self.batch_size)
            path.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
        print(f"{self.output}: {len(answers):,} answers")


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
        with (
            open_lines(self.input) as lines,
            partial_file(page, force=self.force) as html,
            partial_file(output, force=self.force) as path,
        ):
            archive = self.open()
            predictor = task_predictor(archive)
            if not can_explain(predictor):
                raise ConfigurationError(
                    f"{self.archive}: a {type(archive.model).__name__} cannot be explained, only a single "
                    "model of NER, SST, SNLI, SQuAD, classification or coreference"
                )
            predictor.gradients.through_elmo = self.through_elmo
            explainer = Explainer(predictor, self.method)
            explained: list[dict[str, Any]] = []
            problem = None
            try:
                for record in json_records(predictor, lines.with_bar("explain"), lines.name):
                    result = with_place(attempt(explainer, record.content), record.where)
                    explained.append(value_of(result))
            except ConfigurationError as error:
                if not explained:
                    raise
                problem = error
            content = (json.dumps(explanation, ensure_ascii=False) + "\n" for explanation in explained)
            path.write_text("".join(content), encoding="utf-8")
            html.write_text(render(explained), encoding="utf-8")
        print(f"{output}: {len(explained):,} inputs; {page}")
        if problem is not None:
            raise problem


def _page(output: Path) -> Path:
    return output.with_name(f"{output.name}.html")


def render(explained: list[dict[str, Any]]) -> str:
    to_json = partial(json.dumps, ensure_ascii=False)
    return template("explain.html").render(explained=explained, json=to_json)
